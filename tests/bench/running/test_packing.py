"""How many cells share a GPU is found by measuring, and never more than its memory holds. Clock,
GPUs and cells are made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from repfl.bench.cells.cell import Cell
from repfl.bench.running import packing
from repfl.bench.running.devices import MOST, Reading
from repfl.bench.running.packing import CONTEXT, Packer
from tests.bench.conftest import task

GIB = 1 << 30
ROUND = 0.1
"""Seconds that a round takes a cell that is alone."""


@dataclass
class Simulation:
    """GPUs on which cells slow each other down by a rule, packed by the packer until the queue is
    empty.
    """

    packer: Packer
    speed: Callable[[int], float]
    """Cells beside each other -> rounds of all of them together, per round of a cell alone."""
    needs: Callable[[Cell], int] = lambda cell: GIB
    total: int = 80 * GIB
    now: float = 0.0
    rounds: dict[str, float] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    widest: dict[int, int] = field(default_factory=dict)
    fullest: float = 0.0
    shortages: dict[int, int] = field(default_factory=dict)
    wide: dict[int, float] = field(default_factory=dict)
    """Seconds that any GPU held so many cells."""

    def run(self, cells: list[Cell], step: float = 0.2, limit: float = 10_000.0) -> Simulation:
        waiting = list(cells)
        lengths = {cell.id: cell.rounds for cell in cells}
        needs = {cell.id: self.needs(cell) for cell in cells}
        while (waiting or self.at) and self.now < limit:
            while waiting and (place := self.packer.take(waiting[0], 0.0, self.now)) is not None:
                cell = waiting.pop(0)
                self.at[cell.id], self.rounds[cell.id] = place, 0.0
                self.packer.progressed(
                    place, cell.id, 0, self.reading(place, needs, cell.id), self.now
                )
            self.now += step
            for place in range(len(self.packer.places)):
                self._advance(place, lengths, needs, step)
        return self

    def _advance(
        self, place: int, lengths: dict[str, int], needs: dict[str, int], step: float
    ) -> None:
        here = [cell for cell, where in self.at.items() if where == place]
        self.widest[place] = max(self.widest.get(place, 0), len(here))
        self.wide[len(here)] = self.wide.get(len(here), 0.0) + step
        self.fullest = max(self.fullest, sum(needs[cell] + CONTEXT for cell in here) / self.total)
        for cell in here:
            self.rounds[cell] += step / ROUND * self.speed(len(here)) / len(here)
            done = min(lengths[cell], int(self.rounds[cell]))
            self.packer.progressed(place, cell, done, self.reading(place, needs, cell), self.now)
            if done == lengths[cell]:
                del self.at[cell]
                self.packer.end(place, cell)

    def reading(self, place: int, needs: dict[str, int], cell: str) -> Reading:
        """Memory grows to its peak in the first round."""
        held = {
            other: needs[other] if self.rounds[other] >= 1 else 0
            for other, where in self.at.items()
            if where == place
        }
        used = sum(held.values()) + len(held) * CONTEXT
        return Reading(
            held.get(cell, 0), self.total - used, self.total, self.shortages.get(place, 0)
        )


def cells(count: int, rounds: int = 300, **changes: object) -> list[Cell]:
    return [
        task("fedavg", seed, training={"rounds": rounds}, **changes).cell for seed in range(count)
    ]


def packer(count: int = 1, limit: int = MOST, measured: bool = True) -> Packer:
    return Packer([f"cuda:{index}" for index in range(count)], limit, measured)


def test_cells_are_added_as_long_as_each_makes_the_gpu_a_tenth_faster() -> None:
    pays_up_to_four = {1: 1.0, 2: 1.9, 3: 2.6, 4: 3.0, 5: 3.1, 6: 3.1}
    run = Simulation(packer(), lambda count: pays_up_to_four[count]).run(cells(120))
    assert run.widest[0] == 5  # the fifth was tried
    assert run.wide[4] > 0.7 * run.now
    assert run.now < 0.45 * 120 * 300 * ROUND


def test_a_gpu_that_one_cell_fills_is_left_to_it() -> None:
    run = Simulation(packer(), lambda count: 1.0).run(cells(60))
    assert run.widest[0] == 2
    assert run.wide[2] < 0.2 * run.now  # trials are rare


def test_short_cells_are_packed_too() -> None:
    """Cells that end before any measurement does are measured together with those that follow
    them.
    """
    run = Simulation(packer(), lambda count: min(count, 2) * 1.0).run(cells(200, rounds=20))
    assert run.wide[2] > 0.5 * run.now


def test_memory_is_never_overfilled() -> None:
    run = Simulation(packer(), float, needs=lambda cell: 20 * GIB).run(cells(40))
    assert run.widest[0] == 3
    assert run.fullest <= packing.FILL


def test_a_larger_cell_is_expected_to_need_more() -> None:
    """What comes next is ten times as large as what has been measured: it waits until it fits for
    certain.
    """
    small, large = cells(12), cells(4, clients=20, participation=0.1, rounds=301)
    needs = {cell.id: 5 * GIB for cell in small} | {cell.id: 50 * GIB for cell in large}
    run = Simulation(packer(), float, needs=lambda cell: needs[cell.id]).run(small + large)
    assert run.widest[0] > 3
    assert run.fullest <= packing.FILL
    assert not run.at


def test_no_second_cell_before_the_first_has_shown_its_memory() -> None:
    waiting, crowd = cells(2), packer(limit=2, measured=False)
    assert crowd.take(waiting[0], 0.0, 0.0) == 0
    assert crowd.take(waiting[1], 0.0, 1.0) is None
    crowd.progressed(0, waiting[0].id, 0, Reading(0, 80 * GIB, 80 * GIB), 2.0)
    assert crowd.take(waiting[1], 0.0, 3.0) is None
    crowd.progressed(0, waiting[0].id, 1, Reading(GIB, 78 * GIB, 80 * GIB), 4.0)
    assert crowd.take(waiting[1], 0.0, 5.0) == 0


def test_the_first_cell_of_a_shape_has_a_gpu_to_itself() -> None:
    """It measures how such cells are computed best; those that come after, of any method, share."""
    crowd, now = packer(limit=3, measured=False), 0.0
    known, other = cells(2), [task("fedper").cell, task("fedavg", training={"batch": 5}).cell]
    assert crowd.take(known[0], 0.0, now) == 0
    for rounds in (0, 1):
        crowd.progressed(0, known[0].id, rounds, Reading(GIB, 70 * GIB, 80 * GIB), now)
    assert crowd.take(other[1], 0.0, now) is None
    assert crowd.take(other[0], 0.0, now) == 0
    for cell in (known[0], other[0]):
        crowd.end(0, cell.id)
    assert crowd.take(other[1], 0.0, now) == 0
    assert crowd.take(known[1], 0.0, now) is None


def test_memory_that_others_use_counts() -> None:
    waiting, crowd = cells(2), packer(limit=2, measured=False)
    crowd.take(waiting[0], 0.0, 0.0)
    for rounds in (0, 1):
        crowd.progressed(0, waiting[0].id, rounds, Reading(GIB, 10 * GIB, 80 * GIB), 1.0)
    assert crowd.take(waiting[1], 0.0, 2.0) is None


def test_a_shortage_lowers_the_limit_of_its_gpu_alone() -> None:
    crowd, waiting = packer(2, limit=3, measured=False), cells(9)
    for cell in waiting[:6]:
        place = crowd.take(cell, 0.0, 0.0)
        assert place is not None
        for rounds in (0, 1):
            crowd.progressed(place, cell.id, rounds, Reading(GIB, 70 * GIB, 80 * GIB), 0.0)
    first = next(iter(crowd.places[0].cells))
    crowd.progressed(0, first, 2, Reading(GIB, 70 * GIB, 80 * GIB, shortages=1), 1.0)
    assert [place.limit for place in crowd.places] == [2, 3]
    crowd.progressed(
        0, first, 3, Reading(GIB, 70 * GIB, 80 * GIB, shortages=1), 2.0
    )  # the same one, told again
    assert crowd.places[0].limit == 2
    crowd.end(0, first)
    assert crowd.take(waiting[6], 0.0, 3.0) is None


def test_a_cell_that_is_short_of_memory_alone_says_nothing_of_sharing() -> None:
    crowd, (cell,) = packer(limit=3, measured=False), cells(1)
    crowd.take(cell, 0.0, 0.0)
    for shortages in (0, 2):
        crowd.progressed(0, cell.id, shortages, Reading(GIB, 70 * GIB, 80 * GIB, shortages), 0.0)
    assert crowd.places[0].limit == 3


def test_cells_go_round_the_gpus() -> None:
    crowd = packer(4, limit=1, measured=False)
    assert [crowd.take(cell, 0.0, 0.0) for cell in cells(5)] == [0, 1, 2, 3, None]


def test_several_gpus_are_measured_each_for_itself() -> None:
    run = Simulation(packer(2), lambda count: min(count, 2) * 1.0).run(cells(100))
    assert run.wide[2] > 0.5 * 2 * run.now
    assert run.now < 0.35 * 100 * 300 * ROUND
