"""Clients side by side on a GPU: every chunk trains in a lane of its own, and all lanes advance in
turn.

A lane keeps a chunk's memory and its recorded steps, so that the next chunk with the same work, in
this round or a later one, only brings its numbers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from repfl.algorithms.core.batches import Plan
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.data import ClientData, sent_together
from repfl.algorithms.core.feed import Feed, tables
from repfl.algorithms.core.graphs import WORTH, Kind, Lane, Player, kinds
from repfl.algorithms.core.train import Rows, Step, run_chunk

REMEMBERED = 6
"""Kinds of work whose recorded steps are kept; a method has a few phases, and each is one kind."""


@dataclass(frozen=True)
class Work:
    """What one local training does to every chunk."""

    step: Step
    start: Callable[[Tensor | slice], Chunk]
    """The chunk of some rows, before its first step."""
    plans: Sequence[Plan]
    width: int
    longest: int
    """Steps of the client of the federation that makes the most."""
    short: bool
    """Some client of the federation has short batches."""
    keep: tuple[str, ...] = ()
    same: Hashable | None = None
    """Equal for works whose steps do the same; none: this work is unlike any other."""


@dataclass(frozen=True)
class Group:
    """The rows that make a chunk, and what of them lies on the device."""

    rows: list[int]
    where: Tensor | slice
    plans: list[Plan]
    tables: dict[str, Tensor]


@dataclass
class LaneMemory:
    """A lane with the memory and the records of the chunks that train in it."""

    lane: Lane
    held: dict[int, tuple[Chunk, Player]] = field(default_factory=dict)
    """What trains here, by the number of clients in a chunk."""

    def take(
        self, work: Work, data: ClientData, group: Group, device: torch.device
    ) -> tuple[Chunk, Player]:
        """Take in a chunk: in the memory of the one before it, if that fits."""
        local = work.start(group.where)
        before, player = self.held.get(len(group.rows), (None, None))
        if (
            before is not None
            and player is not None
            and before.takes(local)
            and player.feed.reload(group.plans, group.tables)
        ):
            before.reload(local)
            return before, player
        some = next(iter(local.models["w"].values()))
        local.pace = torch.full((), local.options.lr, dtype=some.dtype, device=device)
        ahead = max(len(plan.index) for plan in group.plans)
        wanted: set[Kind] = set()
        if work.same is not None or ahead >= WORTH:
            longest = ahead if work.same is None else work.longest
            keeps = "last_grad" in work.keep
            wanted = kinds(longest, len(group.rows), short=work.short, keeps=keeps)
        room = 1 if work.same is None else work.longest
        feed = Feed(data, group.plans, work.width, device, room, group.tables)
        player = Player(work.step, feed, self.lane, wanted)
        if wanted:
            local = player.prepare(local, lambda: work.start(group.where))
        self.held[len(group.rows)] = local, player
        return local, player

    def refusals(self) -> set[str]:
        """Why steps are not recorded."""
        return {player.refused for _, player in self.held.values() if player.refused}


class LanePool:
    """So many lanes, and what each remembers of the chunks that trained in it, by kind of work."""

    def __init__(
        self,
        count: int,
        size: int,
        lane: Callable[[], Lane],
        data: ClientData,
        device: torch.device,
    ) -> None:
        self.count, self.size, self.lane, self.data, self.device = count, size, lane, data, device
        self.lanes: list[Lane] = []
        self.known: OrderedDict[Hashable, list[LaneMemory]] = OrderedDict()
        self.refusals: set[str] = set()

    def train(self, work: Work, out: Rows) -> None:
        """Train all rows, a chunk to a lane, and collect them."""
        waiting = deque(self._groups(work, out))
        free = self._memories_for(work, len(waiting))
        busy: deque[tuple[LaneMemory, Iterator[None]]] = deque()
        for memory in free:
            memory.lane.fork()
        used = list(free)
        try:
            while waiting or busy:
                while waiting and free:
                    memory = free.pop(0)
                    busy.append((memory, self._course(memory, work, waiting.popleft(), out)))
                memory, course = busy.popleft()
                with memory.lane.current():
                    going = next(course, _ENDED) is not _ENDED
                if going:
                    busy.append((memory, course))
                else:
                    free.append(memory)
        finally:  # also when a step fails: what lanes were given still writes
            for memory in used:
                memory.lane.join()
        for memory in used:
            self.refusals |= memory.refusals()
            if work.same is None:
                memory.held.clear()

    def _groups(self, work: Work, out: Rows) -> list[Group]:
        """The rows that have something to train on, in chunks; all that the device must know of
        them travels at once.
        """
        parts = ([row for row in rows if work.plans[row].index] for rows in out.chunks(self.size))
        chunks = [rows for rows in parts if rows]
        plans = [[work.plans[row] for row in rows] for rows in chunks]
        held = [tables(own, work.width) for own in plans]
        listed = [torch.tensor(rows) for rows in chunks]
        arrived = iter(
            sent_together([*listed, *(t for own in held for t in own.values())], self.device)
        )
        places = [next(arrived) for _ in chunks]
        return [
            Group(
                rows,
                slice(rows[0], rows[0] + 1) if len(rows) == 1 else place,
                own,
                {name: next(arrived) for name in names},
            )
            for rows, place, own, names in zip(chunks, places, plans, held, strict=True)
        ]

    def _course(self, memory: LaneMemory, work: Work, group: Group, out: Rows) -> Iterator[None]:
        """One chunk from its first step to its last; yields after every few steps."""
        local, player = memory.take(work, self.data, group, self.device)
        for event in run_chunk(local, group.plans, player, work.keep, narrows=False):
            if event is not None:
                out.collect(local, group.rows, group.where, event)
            yield

    def _memories_for(self, work: Work, chunks: int) -> list[LaneMemory]:
        """Free lanes for so many chunks, with their records if such work was done before."""
        while len(self.lanes) < min(self.count, chunks):
            self.lanes.append(self.lane())
        count = self.known.pop(work.same, [])
        count += [LaneMemory(lane) for lane in self.lanes[len(count) :]]
        if work.same is not None:
            self.known[work.same] = count
            while len(self.known) > REMEMBERED:
                self.known.popitem(last=False)
        return count[: min(self.count, chunks)]


_ENDED = object()
