"""Clients side by side on a GPU: every chunk trains in a lane of its own, and all lanes advance in
turn.

A lane keeps a chunk's memory and its recorded steps, so that the next chunk with the same work, in
this round or a later one, only brings its numbers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch

from repfl.algorithms.core.batches import Plan
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.feed import Feed
from repfl.algorithms.core.graphs import Lane, Player
from repfl.algorithms.core.train import Rows, Step, run_chunk

REMEMBERED = 6
"""Kinds of work whose recorded steps are kept; a method has a few phases, and each is one kind."""


@dataclass(frozen=True)
class Work:
    """What one local training does to every chunk."""

    step: Step
    start: Callable[[list[int]], Chunk]
    """The chunk of some rows, before its first step."""
    plans: Sequence[Plan]
    width: int
    by_epoch: bool
    same: Hashable | None = None
    """Equal for works whose steps do the same; none: this work is unlike any other."""


@dataclass
class LaneMemory:
    """A lane with the memory and the records of the chunks that train in it."""

    lane: Lane
    local: Chunk | None = None
    player: Player | None = None

    def take(self, work: Work, data: ClientData, rows: list[int], device: torch.device) -> Chunk:
        """Take in a chunk: in the memory of the one before it, if that fits."""
        plans = [work.plans[row] for row in rows]
        local = work.start(rows)
        if (
            self.local is not None
            and self.player is not None
            and self.local.takes(local)
            and self.player.feed.reload(plans)
        ):
            self.local.reload(local)
            return self.local
        local.pace = torch.tensor(
            -local.options.lr, dtype=next(iter(local.models["w"].values())).dtype, device=device
        )
        self.local, self.player = (
            local,
            Player(
                work.step, Feed(data, plans, work.width, device), self.lane, work.same is not None
            ),
        )
        return local

    def leave(self) -> None:
        """Forget the chunk and its records."""
        self.local = self.player = None


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
        groups = ([row for row in rows if work.plans[row].index] for rows in out.chunks(self.size))
        waiting = deque(rows for rows in groups if rows)
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
            if memory.player is not None and memory.player.refused:
                self.refusals.add(memory.player.refused)
            if work.same is None:
                memory.leave()

    def _course(self, memory: LaneMemory, work: Work, rows: list[int], out: Rows) -> Iterator[None]:
        """One chunk from its first step to its last; yields after every step."""
        local = memory.take(work, self.data, rows, self.device)
        assert memory.player is not None
        plans = [work.plans[row] for row in rows]
        for event in run_chunk(local, plans, memory.player, by_epoch=work.by_epoch):
            if event is not None:
                out.collect(local, rows, *event)
            yield
        if local.clients != len(
            rows
        ):  # some finished early: the memory no longer has everybody's shape
            memory.leave()

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
