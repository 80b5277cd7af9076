"""Tasks for the workers of an executor, the options of a run, and the outcomes of tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from repfl.bench.grid.cell import Cell


@dataclass(frozen=True)
class Task:
    """A cell to compute, and the command that computes it alone."""

    cell: Cell
    command: str = ""
    skip: str = ""
    """Why the cell makes no sense; it is stored as skipped."""
    memory: float = 0.0
    """Estimated bytes that it needs."""


@dataclass(frozen=True)
class Options:
    """How cells are run; the options do not change a cell's identity."""

    results: str = "results"
    device: str = "cpu"
    precision: str = "default"
    stack: int = 1
    """Clients computed at once; 0: chosen by the size of the model."""
    checkpoint_every: float = 60.0
    fresh: bool = False
    began: str = ""
    """When the run began, in the format of `now`: with `fresh`, and for failed cells, only newer
    records count as done.
    """
    plugins: tuple[str, ...] = ()
    per_gpu: int = 1
    """Cells that share one GPU."""
    memory: float = inf
    """Bytes that the cells on one device may need together."""
    keep_models: str = ""
    """Which round's models of the clients are kept beside the record: last, best, or none."""
    track: str = ""
    """The tracker of every cell, such as tensorboard."""
    norms: bool = False
    """Record the size of state tensors after every round, for the regression gate."""


EARLIER = "the earlier result stays"
"""Ends the reason of a cell that failed and had been done before: the failure is not stored."""


@dataclass(frozen=True)
class Outcome:
    """How a task ended.

    Stored: done, failed, diverged, skipped. Not stored: cached (it was there already), busy
    (another runner has it), refused (its data, partition or memory cannot be had), interrupted,
    fatal (nothing more can be stored).
    """

    id: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    value: float | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the record of a cell that failed or diverged says so."""
        return self.status in ("failed", "diverged") and not self.reason.endswith(EARLIER)


@dataclass(frozen=True)
class Clocks:
    """Seconds of wall-clock time and of CPU time."""

    wall: float = 0.0
    processor: float = 0.0

    @classmethod
    def now(cls) -> Clocks:
        return cls(time.perf_counter(), time.process_time())

    def since(self, begun: Clocks) -> Clocks:
        """Return these times plus the time since `begun`."""
        now = Clocks.now()
        return Clocks(
            self.wall + now.wall - begun.wall, self.processor + now.processor - begun.processor
        )


Report = Callable[[str, int], None]
"""Called with a cell's id and how many of its rounds are done."""
