"""Streams, and clocks that tell who has seen how far of whom.

Work on one stream has no order with work on another, unless one waits for the other or the host has
waited for it in between.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

from tests.algorithms.impostor.report import Report, site
from tests.algorithms.impostor.tensors import GPU

DEFAULT = 0
LISTED = {"__getitem__", "__setitem__"}
"""Calls that touch listed rows; lanes share the rows of one tensor out among themselves."""

Span = tuple[Any, int, int, bool]
"""A storage, the bytes in question, and whether some between them are not."""


class Stream:
    """An order of execution."""

    numbers = count(1)

    def __init__(self, clock: Clock, number: int | None = None) -> None:
        self.clock, self.number, self.device = clock, number, GPU
        if number is None:
            self.number = next(self.numbers)

    def wait_stream(self, other: Stream) -> None:
        self.clock.wait(self.number, other.number)

    def synchronize(self) -> None:
        self.clock.host_waits(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)


class Memory:
    """What is known of one storage on the device."""

    def __init__(self, born: int, size: int, pooled: bool) -> None:
        self.born, self.size, self.pooled = born, size, pooled
        self.written: dict[Use, int] = {}
        self.read: dict[Use, int] = {}
        self.site = ""

    def users(self) -> list[tuple[Any, int]]:
        return [(use.stream, tick) for use, tick in (*self.read.items(), *self.written.items())]


class Use(NamedTuple):
    """Bytes that a stream has read or written."""

    stream: Any
    start: int
    stop: int
    listed: bool
    """Some rows of these."""
    part: bool
    """Not all of the storage; lanes list and slice rows of their own."""

    def meets(self, other: Use) -> bool:
        apart = self.stop <= other.start or other.stop <= self.start
        rows = (self.listed and other.part) or (self.part and other.listed)
        return not apart and not rows and not (self.listed and other.listed)

    def covers(self, other: Use) -> bool:
        return not self.listed and self.start <= other.start and other.stop <= self.stop


class Clock:
    """Every stream's time, and what each has seen of the others'."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.now: dict[Any, int] = defaultdict(int)
        self.seen: dict[Any, dict[Any, int]] = defaultdict(dict)
        self.host: dict[Any, int] = {}
        self.stack: list[Any] = [DEFAULT]
        self.memory: dict[int, Memory] = {}
        self.freed: dict[Any, list[tuple[Any, int, Memory]]] = defaultdict(list)

    @property
    def current(self) -> Any:
        return self.stack[-1]

    @property
    def alive(self) -> int:
        """Bytes on the device."""
        return sum(memory.size for memory in self.memory.values())

    @contextmanager
    def on(self, stream: Stream | None) -> Iterator[None]:
        self.stack.append(self.current if stream is None else stream.number)
        try:
            yield
        finally:
            self.stack.pop()

    # -- waiting -----------------------------------------------------------------------------------

    def view(self, stream: Any) -> dict[Any, int]:
        """How far a stream has seen all streams."""
        own = self.seen[stream]
        _later(own, self.host)
        own[stream] = self.now[stream]
        return own

    def wait(self, waiter: Any, other: Any) -> None:
        _later(self.view(waiter), self.view(other))

    def host_waits(self, stream: Any) -> None:
        _later(self.host, self.view(stream))

    def all_wait(self) -> None:
        for stream in list(self.now):
            self.host_waits(stream)

    def host_has_seen(self, stream: Any, tick: int) -> bool:
        return self.host.get(stream, 0) >= tick

    # -- memory ------------------------------------------------------------------------------------

    def born(self, storage: Any, pooled: bool = False) -> Memory:
        """What is known of a storage; a new one may be memory that another stream still uses."""
        known = self.memory.get(storage._cdata)
        if known is not None:
            return known
        stream = self.current
        if not pooled:
            self._handed_out(stream)
        made = self.memory[storage._cdata] = Memory(stream, storage.nbytes(), pooled)
        weakref.finalize(storage, self._dies, storage._cdata, made)
        return made

    def _handed_out(self, stream: Any) -> None:
        own = self.view(stream)
        for user, tick, memory in self.freed.pop(stream, []):
            if own.get(user, 0) < tick:
                self.report.found(
                    "hazard",
                    f"{memory.size} B were freed while another stream may use them, and are handed"
                    " out anew without record_stream or a wait",
                    memory.site,
                )

    def _dies(self, key: int, made: Memory) -> None:
        if self.memory.get(key) is not made:
            return
        del self.memory[key]
        own = self.view(made.born)
        if not made.pooled:
            self.freed[made.born] += [
                (user, tick, made)
                for user, tick in made.users()
                if user != made.born and own.get(user, 0) < tick
            ]

    def use(self, spans: Iterable[Span], writes: set[int], what: str) -> None:
        """The current stream reads some memory, and writes some of it."""
        stream = self.current
        self.now[stream] += 1
        tick, own = self.now[stream], self.view(stream)
        for storage, start, stop, gaps in spans:
            memory, writing = self.born(storage), storage._cdata in writes
            part = stop - start < storage.nbytes()
            use = Use(stream, start, stop, gaps or what in LISTED, part)
            if _unseen(memory.written, use, own):
                self.report.found("race", f"{what} uses what another stream may still write")
            if writing and _unseen(memory.read, use, own):
                self.report.found("race", f"{what} overwrites what another stream may still read")
            if writing:
                for uses in (memory.written, memory.read):
                    for old in [old for old in uses if use.covers(old)]:
                        del uses[old]
            (memory.written if writing else memory.read)[use] = tick
            if stream != memory.born:
                memory.site = site()


def _unseen(uses: dict[Use, int], now: Use, own: dict[Any, int]) -> bool:
    """Whether some other use of the same bytes has no order with this one."""
    return any(own.get(use.stream, 0) < tick and use.meets(now) for use, tick in uses.items())


def _later(into: dict[Any, int], other: dict[Any, int]) -> None:
    for stream, tick in other.items():
        if into.get(stream, 0) < tick:
            into[stream] = tick
