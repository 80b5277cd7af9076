"""Which cells to compute next: those that are expected to settle the most printed numbers and
sentences per hour.

A number is settled once its verdict is *reproduced* or *differs*. For every setting (a cell but for
its seed) and every number of further seeds, `prospect` says how likely each number that the setting
serves is to be settled; a cell that serves several counts for each. Of all settings the one with
the most expected per hour is taken, again and again, until the hours are spent. Assumed:

* Numbers are independent, and ours are as far from the printed ones as those measured so far.
* A sentence can be told once its whole table or figure is there; every open cell of it counts for
  an equal share of it.
* Measured costs, closed forms and what needs no run are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from repfl.bench.cells.absent import data_absent
from repfl.bench.cells.planned import Planned
from repfl.bench.errors import UserError
from repfl.bench.evidence.scene import Number, Scene
from repfl.bench.running.cost import Cost, Speeds
from repfl.paper_tables.core.prospect import Prospect

HOUR = 3600.0


@dataclass(frozen=True)
class Gain:
    """What becomes of a number."""

    number: Number
    runs: int
    chance: Prospect
    more: float
    """By how much its chance grows."""


@dataclass(frozen=True)
class Choice:
    """Seeds of one setting that are to be computed together."""

    cells: tuple[Planned, ...]
    gains: tuple[Gain, ...]
    sentences: float
    cost: Cost

    @property
    def expected(self) -> float:
        """Numbers and sentences that are expected to be settled."""
        return sum(gain.more for gain in self.gains) + self.sentences

    @property
    def rate(self) -> float:
        """The same per hour."""
        return self.expected / max(self.cost.seconds, 1.0) * HOUR


# -- choosing --------------------------------------------------------------------------------------


@dataclass
class Chooser:
    """Takes the setting with the most expected per hour, again and again."""

    scene: Scene
    speeds: Speeds
    usable: Mapping[str, str] = field(default_factory=dict)
    """Why cells cannot be computed here; those that can are not in it."""
    taken: set[str] = field(default_factory=set)

    def choose(self, hours: float) -> list[Choice]:
        """The best cells for so many hours of one worker, the best first."""
        left = hours * HOUR
        chosen: list[Choice] = []
        offers = {name: list(self._offers(items)) for name, items in self.scene.settings.items()}
        while True:
            best: tuple[float, str, Choice] | None = None
            for name, choices in offers.items():
                for each in choices:
                    if each.cost.seconds <= left and (best is None or each.rate > best[0]):
                        best = each.rate, name, each
            if best is None or best[2].expected <= 0:
                return chosen
            chosen.append(best[2])
            left -= best[2].cost.seconds
            self.taken |= {item.cell.id for item in best[2].cells}
            offers[best[1]] = list(self._offers(self.scene.settings[best[1]]))

    def _offers(self, items: Sequence[Planned]) -> Iterator[Choice]:
        """One further seed of a setting, two, and so on."""
        here = self.scene.done | self.taken
        open_ = [i for i in items if i.cell.id not in here and i.cell.id not in self.usable]
        for count in range(1, len(open_) + 1):
            yield self.offer(open_[:count])

    def offer(self, cells: Sequence[Planned]) -> Choice:
        """What computing these seeds together may settle, beside what was taken already."""
        here, new = self.scene.done | self.taken, {item.cell.id for item in cells}
        gains = []
        for number in dict.fromkeys(n for cell in new for n in self.scene.served.get(cell, ())):
            before, after = (len(known & set(number.ids)) for known in (here, here | new))
            chance = number.chance(after, self.scene.spread)
            more = chance.settled - number.chance(before, self.scene.spread).settled
            gains.append(Gain(number, after, chance, more))
        gains.sort(key=lambda gain: -gain.more)
        told = sum(self.scene.sentences.get(cell, 0.0) for cell in new)
        return Choice(
            tuple(cells), tuple(gains), told, self.speeds.cost(item.cell for item in cells)
        )


# -- what can be computed here ---------------------------------------------------------------------


def impossible(planned: Iterable[Planned]) -> dict[str, str]:
    """Why cells cannot be computed: they make no sense, or their data are not here."""
    found = {}
    for item in planned:
        if why := item.skip or data_absent(item.cell.recipe["dataset"]):
            found[item.cell.id] = why
    return found


def check_hours(option: str, hours: float) -> None:
    """Refuse what is no time to compute."""
    if not (isfinite(hours) and hours > 0):
        raise UserError(f"{option} {hours:g} is not valid; valid: hours of one worker, such as 10")
