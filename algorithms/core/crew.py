"""Clients side by side on a GPU: every chunk trains in a lane of its own, and all lanes advance in
turn.

A seat keeps a chunk's memory and its recorded steps, so that the next chunk with the same work, in
this round or a later one, only brings its numbers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch

from repfl.algorithms.core.batches import Plan
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.feed import Feed
from repfl.algorithms.core.graphs import Lane, Player
from repfl.algorithms.core.local import Local
from repfl.algorithms.core.train import Rows, Step, run_chunk

REMEMBERED = 6
"""Kinds of work whose recorded steps are kept; a method has a few phases, and each is one kind."""


@dataclass(frozen=True)
class Work:
    """What one local training does to every chunk."""

    step: Step
    start: Callable[[list[int]], Local]
    """The chunk of some rows, before its first step."""
    plans: Sequence[Plan]
    width: int
    by_epoch: bool
    same: Hashable | None = None
    """Equal for works whose steps do the same; none: this work is unlike any other."""


@dataclass
class Seat:
    """A lane with the memory and the records of the chunks that train in it."""

    lane: Lane
    local: Local | None = None
    player: Player | None = None

    def take(self, work: Work, data: ClientData, rows: list[int], device: torch.device) -> Local:
        """Seat a chunk: in the memory of the one before it, if that fits."""
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


class Crew:
    """So many seats, and whose chunks sat in them for which work."""

    def __init__(
        self,
        seats: int,
        size: int,
        lane: Callable[[], Lane],
        data: ClientData,
        device: torch.device,
    ) -> None:
        self.seats, self.size, self.lane, self.data, self.device = seats, size, lane, data, device
        self.lanes: list[Lane] = []
        self.known: OrderedDict[Hashable, list[Seat]] = OrderedDict()
        self.refusals: set[str] = set()

    def train(self, work: Work, out: Rows) -> None:
        """Train all rows, a chunk to a seat, and collect them."""
        groups = ([row for row in rows if work.plans[row].index] for rows in out.chunks(self.size))
        waiting = deque(rows for rows in groups if rows)
        free = self._seats_for(work, len(waiting))
        busy: deque[tuple[Seat, Iterator[None]]] = deque()
        for seat in free:
            seat.lane.fork()
        used = list(free)
        try:
            while waiting or busy:
                while waiting and free:
                    seat = free.pop(0)
                    busy.append((seat, self._course(seat, work, waiting.popleft(), out)))
                seat, course = busy.popleft()
                with seat.lane.current():
                    going = next(course, _ENDED) is not _ENDED
                if going:
                    busy.append((seat, course))
                else:
                    free.append(seat)
        finally:  # also when a step fails: what lanes were given still writes
            for seat in used:
                seat.lane.join()
        for seat in used:
            if seat.player is not None and seat.player.refused:
                self.refusals.add(seat.player.refused)
            if work.same is None:
                seat.leave()

    def _course(self, seat: Seat, work: Work, rows: list[int], out: Rows) -> Iterator[None]:
        """One chunk from its first step to its last; yields after every step."""
        local = seat.take(work, self.data, rows, self.device)
        assert seat.player is not None
        plans = [work.plans[row] for row in rows]
        for event in run_chunk(local, plans, seat.player, by_epoch=work.by_epoch):
            if event is not None:
                out.collect(local, rows, *event)
            yield
        if local.clients != len(
            rows
        ):  # some finished early: the memory no longer has everybody's shape
            seat.leave()

    def _seats_for(self, work: Work, chunks: int) -> list[Seat]:
        """Free seats for so many chunks, with their records if such work was done before."""
        while len(self.lanes) < min(self.seats, chunks):
            self.lanes.append(self.lane())
        seats = self.known.pop(work.same, [])
        seats += [Seat(lane) for lane in self.lanes[len(seats) :]]
        if work.same is not None:
            self.known[work.same] = seats
            while len(self.known) > REMEMBERED:
                self.known.popitem(last=False)
        return seats[: min(self.seats, chunks)]


_ENDED = object()
