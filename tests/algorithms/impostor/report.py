"""What an impostor saw: findings, and counts by round and phase."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
OWN = str(Path(__file__).resolve().parent)


class Finding(NamedTuple):
    """Something that a GPU would have minded."""

    kind: str
    """mismatch, race, hazard, dangling, capture, order."""
    text: str
    site: str

    def __str__(self) -> str:
        return f"[{self.kind}] {self.site}: {self.text}"


class Count(NamedTuple):
    """Something that is counted."""

    round: int
    phase: str
    what: str
    """launches (kernels that Python issues), replays (of graphs), played (kernels in these), waits
    (of the host), copies (between host and device), captures, nodes (kernels that were captured).
    """
    how: str
    site: str


class Work(NamedTuple):
    """What one operation does."""

    kernels: int
    moved: int
    """Bytes."""
    operations: float


class Report:
    """Findings and counts; who runs something says where it is."""

    def __init__(self) -> None:
        self.findings: Counter[Finding] = Counter()
        self.counts: Counter[Count] = Counter()
        self.alive: dict[int, int] = {}
        """Bytes on the device at the end of every round."""
        self.operations: Counter[str] = Counter()
        """Operations in one pass of every graph that was captured."""
        self.meter: Callable[..., Work] | None = None
        """What an operation does, where that is asked for."""
        self.issued: dict[tuple[int, str], list[Work]] = defaultdict(list)
        """What Python issues, by round and phase."""
        self.graphs: list[list[Work]] = []
        """What every graph holds."""
        self.round, self.phase = 0, "start"

    def found(self, kind: str, text: str, where: str = "") -> None:
        self.findings[Finding(kind, text, where or site())] += 1

    def count(self, what: str, how: str, amount: int = 1) -> None:
        where = site() if what in ("waits", "copies") else ""
        self.counts[Count(self.round, self.phase, what, how, where)] += amount

    def total(self, what: str, round_: int | None = None, phase: str | None = None) -> int:
        """How much was counted, in all or in one round, in all or in one phase."""
        return sum(
            n
            for count, n in self.counts.items()
            if count.what == what and round_ in (None, count.round) and phase in (None, count.phase)
        )

    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Name the phase in which something is counted."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before


def site() -> str:
    """The nearest line of the repository that is not the impostor's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(str(ROOT)) and not name.startswith(OWN):
            return f"{name[len(str(ROOT)) + 1 :]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"
