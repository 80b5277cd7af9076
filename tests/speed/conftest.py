"""Every figure has beside it what plain PyTorch does in the same run, in turns with it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import pytest

from repfl.bench.run.machine import keep_freed_memory
from tests.speed.clients import synchronise

ROWS = pytest.StashKey[list[tuple[str, ...]]]()
HEAD = ("figure", "measured", "unit", "of plain PyTorch")


class Figure:
    """Takes one figure and keeps it, in pytest-benchmark's file and in the table at the end."""

    def __init__(self, benchmark: Any, rows: list[tuple[str, ...]], name: str) -> None:
        self.benchmark, self.rows, self.name = benchmark, rows, name

    def rate(
        self,
        work: Callable[[], Any],
        amount: float,
        unit: str,
        *,
        device: str = "cpu",
        plain: Callable[[], Any] | None = None,
        plain_amount: float | None = None,
        rounds: int = 5,
    ) -> float:
        """Units per second of `work`, which does `amount` of them; `plain` does `plain_amount`."""
        beside: list[float] = []

        def timed(what: Callable[[], Any]) -> float:
            synchronise(device)
            begun = perf_counter()
            what()
            synchronise(device)
            return perf_counter() - begun

        def before() -> None:
            if plain is not None:
                beside.append(timed(plain))

        own: list[float] = []
        timed(work)
        before()
        beside.clear()
        self.benchmark.pedantic(lambda: own.append(timed(work)), setup=before, rounds=rounds)
        speed = amount / median(own)
        ratio = None if plain is None else speed * median(beside) / (plain_amount or amount)
        self.keep(speed, unit, ratio)
        return speed

    def once(self, measure: Callable[[], float], unit: str) -> float:
        """Keep what `measure` returns."""
        value = float(self.benchmark.pedantic(measure, rounds=1))
        self.keep(value, unit)
        return value

    def keep(self, value: float, unit: str, plain: float | None = None) -> None:
        found = {"value": value, "unit": unit, "of plain PyTorch": plain}
        self.benchmark.extra_info |= {k: shown for k, shown in found.items() if shown is not None}
        ratio = "" if plain is None else f"{plain:.2f}"
        self.rows.append((self.name, f"{value:,.4g}", unit, ratio))


@pytest.fixture
def figure(benchmark: Any, request: pytest.FixtureRequest) -> Figure:
    keep_freed_memory()  # as every process does that computes cells
    rows = request.config.stash.setdefault(ROWS, [])
    return Figure(benchmark, rows, request.node.name.removeprefix("test_"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    terminalreporter.section("figures, one thread per process on a CPU")
    for row in (HEAD, *rows):
        line = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        terminalreporter.write_line("  ".join(line).rstrip())
