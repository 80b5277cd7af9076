"""Would `settle` have chosen better than the order that measured values were computed in? It is
shown the cells that are measured at paper scale, none of them done, and orders them; then both
orders are held against the verdicts that came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from repfl.bench.cells.grid import printed
from repfl.bench.evidence import measured
from repfl.bench.evidence.scene import SCALE, Number, Scene
from repfl.bench.evidence.settle import HOUR, Chooser
from repfl.bench.running.cost import Speeds


@dataclass(frozen=True)
class Order:
    """Cells in an order, and what came of it."""

    cells: tuple[str, ...]
    settled: tuple[float, ...]
    """Estimated hours after which each number was settled, in that order."""
    hours: float

    @property
    def mean(self) -> float:
        """Hours until a number was settled, on average."""
        return sum(self.settled) / len(self.settled) if self.settled else 0.0


@dataclass(frozen=True)
class Hindsight:
    """The order taken, the one that `settle` gives the same cells, and what it expects of both and
    of a free choice for the same hours.
    """

    taken: Order
    ordered: Order
    expected: float
    """Numbers and sentences that the cells taken were expected to settle."""
    free: float
    """The same of the cells it would have chosen among all that can be computed."""


def hindsight(now: Scene, speeds: Speeds, impossible: Mapping[str, str]) -> Hindsight:
    """Both orders, by the same estimated costs; a free choice takes no cell that is impossible."""
    finished = _finished()
    taken = sorted((cell for cell in now.planned if cell in finished), key=finished.__getitem__)
    hours = {cell: speeds.seconds(now.planned[cell].cell) / HOUR for cell in now.planned}
    blank = replace(
        now,
        numbers=[replace(number, ours=None, verdict="") for number in now.numbers],
        sentences=dict.fromkeys(now.planned, 0.0) | dict(now.sentences),
        done=frozenset(),
    )
    others = {cell: "not measured" for cell in now.planned if cell not in finished}
    chooser = Chooser(blank, speeds, others)
    total = sum(hours[cell] for cell in taken)
    ordered = [item.cell.id for choice in chooser.choose(2 * total) for item in choice.cells]
    ordered += [cell for cell in taken if cell not in ordered]
    elsewhere = Chooser(blank, speeds, impossible)
    return Hindsight(
        _replayed(taken, now.numbers, hours),
        _replayed(ordered, now.numbers, hours),
        sum(
            number.chance(len(set(number.ids) & set(taken)), now.spread).settled
            for number in blank.numbers
        ),
        sum(gain.more for choice in elsewhere.choose(total) for gain in choice.gains),
    )


def _finished() -> dict[str, str]:
    """When every measured cell of the paper scale was finished first. The board's are left out: no
    paper prints its numbers, so nobody chose them for what they settle.
    """
    found: dict[str, str] = {}
    for paper in printed():
        for line in measured.read(paper, SCALE).lines:
            when = str(line.record.provenance["finished"])
            found[line.cell] = min(when, found.get(line.cell, when))
    return found


def _replayed(cells: Sequence[str], numbers: Sequence[Number], hours: Mapping[str, float]) -> Order:
    """When the numbers that are settled now would have been."""
    clock, when = 0.0, {}
    for cell in cells:
        clock += hours[cell]
        when[cell] = clock
    settled = [
        max(when[cell] for cell in number.ids if cell in when)
        for number in numbers
        if number.settled and any(cell in when for cell in number.ids)
    ]
    return Order(tuple(cells), tuple(sorted(settled)), clock)
