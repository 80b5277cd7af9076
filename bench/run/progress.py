"""Progress: bars with an estimate of the remaining time on a terminal, plain lines elsewhere,
nothing for what takes no time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from repfl.bench.grid.cell import Cell
from repfl.bench.run.cost import Cost, between, duration
from repfl.bench.run.task import Outcome

QUIET = 2.0
"""Seconds that may pass in silence, and the least time between two plain lines; a long run speaks
less often.
"""


class Progress:
    """What a runner tells while it runs. Everything goes to stderr, so that stdout stays a
    result.
    """

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream or sys.stderr
        self.cells: dict[str, Cell] = {}
        self.rounds: dict[str, int] = {}
        self.done = self.total = self.cached = 0
        self.begun = self.spoke = time.monotonic()
        self._costs: Mapping[str, float] = {}
        self._finished_cost = self._all_cost = self._found = 0.0
        self._expected: float | None = None

    @contextmanager
    def running(
        self,
        cells: Sequence[Cell],
        costs: Mapping[str, float],
        cached: int,
        workers: int,
        known: bool = True,
        share: Cost | None = None,
    ) -> Iterator[None]:
        """While the given cells are computed. `known`: their costs are seconds, not only shares of
        the whole. `share` is what a worker has of them, with a range.
        """
        self.cells = {cell.id: cell for cell in cells}
        self.total, self.cached, self._costs = len(cells), cached, costs
        self._all_cost = sum(costs[cell] for cell in self.cells)
        self.begun = self.spoke = time.monotonic()
        reused = f", {cached} are there already" if cached else ""
        on = f"{workers} worker{'s' if workers > 1 else ''}"
        self._expected = self._all_cost / max(workers, 1) if known else None
        estimate = (
            f"{on}, and no cell has told how long yet"
            if self._expected is None
            else f"about {between(share) if share else duration(self._expected)} on {on}"
        )
        self.note(f"{self.total} cells to compute{reused}; {estimate}")
        yield
        self.note(
            f"{self.done} of {self.total} cells ended in {duration(time.monotonic() - self.begun)}"
        )

    def note(self, text: str) -> None:
        """A line of its own."""
        print(text, file=self.stream, flush=True)

    def round(self, cell: str, round_: int) -> None:
        """A cell has come to the end of a round; what is heard of it first is where it begins, or
        goes on.
        """
        if cell not in self.rounds and cell in self.cells:
            self._found += self._cost(cell, round_)
        self.rounds[cell] = round_
        self._show()

    def finish(self, outcome: Outcome) -> None:
        """A cell has ended."""
        self.done += outcome.status != "interrupted"
        self.rounds.pop(outcome.id, None)
        self._finished_cost += self._costs.get(outcome.id, 0.0)
        if outcome.status not in ("done", "cached", "skipped", "interrupted"):
            self.note(
                f"{outcome.status}: {self.cells.get(outcome.id, outcome.id[:12])}: {outcome.reason}"
            )
        self._show()

    @property
    def share(self) -> float:
        """How much of the work is done, by estimated cost."""
        running = sum(
            self._cost(cell, rounds) for cell, rounds in self.rounds.items() if cell in self.cells
        )
        return min(1.0, (self._finished_cost + running) / self._all_cost) if self._all_cost else 1.0

    def _cost(self, cell: str, rounds: int) -> float:
        return self._costs[cell] * rounds / self.cells[cell].rounds

    def remaining(self) -> str:
        """Estimate of the time to go: from the time that has passed once that says something, from
        the expected costs before.
        """
        passed, left = time.monotonic() - self.begun, 1 - self.share
        gained = self.share - (self._found / self._all_cost if self._all_cost else 0.0)
        if gained > 0.02 and passed > 1:
            return duration(passed * left / gained)
        return "?" if self._expected is None else duration(self._expected * left)

    def _show(self) -> None:
        now = time.monotonic()
        if now - self.spoke >= max(QUIET, (now - self.begun) / 12) and self.done < self.total:
            self.spoke = now
            self.note(
                f"{self.done}/{self.total} cells, {100 * self.share:.0f} %, {self.remaining()}"
                " to go"
            )


class Bars(Progress):
    """The same on a terminal, as a bar."""

    @contextmanager
    def running(
        self,
        cells: Sequence[Cell],
        costs: Mapping[str, float],
        cached: int,
        workers: int,
        known: bool = True,
        share: Cost | None = None,
    ) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}", markup=False),
        )
        with Bar(*columns, console=Console(file=self.stream), transient=True) as bar:
            self._bar, self._task = bar, bar.add_task("cells", total=1.0, eta="")
            with super().running(cells, costs, cached, workers, known, share):
                yield
            del self._bar

    def note(self, text: str) -> None:
        if hasattr(self, "_bar"):
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            super().note(text)

    def _show(self) -> None:
        if hasattr(self, "_bar"):
            at = ", ".join(
                f"{self.cells[cell].method} {rounds}"
                for cell, rounds in list(self.rounds.items())[:3]
                if cell in self.cells
            )
            text = f"{self.done}/{self.total} cells{' (' + at + ')' if at else ''}"
            self._bar.update(
                self._task, completed=self.share, description=text, eta=f"{self.remaining()} to go"
            )


def make(stream: Any = None) -> Progress:
    """Bars on a terminal, lines elsewhere."""
    stream = stream or sys.stderr
    return Bars(stream) if getattr(stream, "isatty", bool)() else Progress(stream)
