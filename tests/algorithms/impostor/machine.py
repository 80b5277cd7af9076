"""The impostor itself: its report, its clock and what is being captured."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor

from tests.algorithms.impostor.graphs import Graph
from tests.algorithms.impostor.report import Report
from tests.algorithms.impostor.streams import Clock
from tests.algorithms.impostor.tensors import memory_of


class Machine:
    """One GPU and the host that drives it."""

    def __init__(self) -> None:
        self.report = Report()
        self.clock = Clock(self.report)
        self.capture: Graph | None = None
        self.handles: Counter[int] = Counter()
        """Handles that tapes hold on memory."""
        self.open_pool = False
        """A capture has failed and still takes what is allocated, as before torch 2.15."""
        self.on_gpu = False
        """The call that is being made computes on the GPU."""
        self.pinned: dict[int, tuple[Any, int] | None] = {}
        """Pinned memory on the host: when the copy that reads it is over; none: it is at rest."""

    def refuse_in_capture(self, what: str) -> None:
        """Raise as CUDA does when something is done that a capture cannot hold."""
        if self.capture is not None:
            self.capture.broken = True
            raise RuntimeError(f"operation not permitted when stream is capturing: {what}")

    def waits(self, how: str, *, copies: bool = False) -> None:
        """The host waits for the current stream."""
        self.refuse_in_capture(how)
        self.clock.host_waits(self.clock.current)
        self.report.count("waits", how)
        if copies:
            self.report.count("copies", how)

    def travels(self, source: Tensor) -> None:
        """The current stream reads pinned memory, and the host goes on."""
        self.refuse_in_capture("a copy from the host")
        clock = self.clock
        clock.now[clock.current] += 1
        self.pinned[memory_of(source)] = clock.current, clock.now[clock.current]
        self.report.count("copies", "pinned upload")

    def host_writes(self, tensor: Tensor) -> None:
        """The host writes memory that a copy may still read."""
        copy = self.pinned.get(memory_of(tensor))
        if copy is not None and not self.clock.host_has_seen(*copy):
            self.report.found("race", "the host overwrites pinned memory that still travels")
