"""How many cells share one GPU.

A GPU that trains one small cell idles between kernels; a second cell beside it may use what the
first leaves. Whether it does is measured: the `Packer` lets one cell more in, compares how fast the
GPU gets through its work with what it did before, and takes the step back where that did not pay.
It knows nothing of processes and clocks: it is fed with what workers report, and asked for a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from repfl.bench.cells.cell import Cell, canonical
from repfl.bench.cells.needs import participants
from repfl.bench.running.devices import Reading

FILL = 0.85
"""Share of a GPU's memory that may be spoken for."""
CONTEXT = 600 << 20
"""Bytes that a process takes on a GPU beside its tensors."""
GAIN = 1.10
"""Times as fast a GPU must become for one cell more to stay."""
WINDOW, ROUNDS = 10.0, 20
"""Seconds, and rounds per cell, that a measurement of speed takes at least."""
PATIENCE, LONGEST = 10.0, 3600.0
"""After a trial that did not pay, the next one waits so many times as long as it took, and twice
that after each further one; never longer than so many seconds, since cells of another kind may
come.
"""


# -- what a cell will need -------------------------------------------------------------------------


def kind_of(cell: Cell) -> str:
    """Cells of one kind differ by their seed alone, and need equal memory."""
    return canonical({name: value for name, value in cell.json.items() if name != "seed"})


def bulk(cell: Cell) -> float:
    """Numbers in the models of all clients: what memory grows with from cell to cell."""
    recipe = cell.recipe
    return float(
        recipe["clients"]
        * _parameters(
            recipe["model"], recipe["dataset"], tuple(recipe["input"] or ()), recipe["classes"]
        )
    )


def shape_of(cell: Cell) -> str:
    """What the best way to compute a cell on a GPU depends on, which is measured when the first
    such cell begins.
    """
    recipe, training = cell.recipe, cell.recipe["training"]
    cohort = participants(cell.method, recipe)
    shape = [recipe[name] for name in ("model", "dataset", "input", "classes")]
    return canonical([*shape, training["batch"], training["momentum"], cohort])


@lru_cache(maxsize=64)
def _parameters(model: str, dataset: str, shape: tuple[int, ...], classes: int | None) -> int:
    from repfl.algorithms.models import build
    from repfl.datasets.core import registry

    described = registry.get(dataset)
    channels, size = (shape[0], shape[1]) if shape else (described.shape[2], described.shape[0])
    return int(
        build(
            model, channels=channels, size=size, classes=classes or len(described.classes)
        ).layout.size
    )


# -- the decision ----------------------------------------------------------------------------------


@dataclass
class _Running:
    """A cell on a GPU."""

    kind: str
    shape: str
    bulk: float
    weight: float
    """Estimated seconds of one round: what makes rounds of different cells add up."""
    rounds: int | None = None
    """Rounds done when it was last heard; none before."""
    warm: bool = False
    """It has done a round here, so that what it needs is known."""
    peak: int = 0
    shortages: int = 0


@dataclass
class _Place:
    """A GPU, its cells, and what is known about it."""

    device: str
    limit: int
    """Cells at most."""
    width: int
    """Cells that pay, as far as is known; one more while a trial is on."""
    cells: dict[str, _Running] = field(default_factory=dict)
    used: int = 0
    total: int = 0
    speed: float | None = None
    """Work per second at the present width; none: not measured yet."""
    before: float = 0.0
    """The same at the width before the trial."""
    trial: float | None = None
    """When the trial began."""
    again: float = 0.0
    """No trial before this."""
    patience: float = PATIENCE
    opened: float | None = None
    work: float = 0.0
    told: int = 0

    def restart(self) -> None:
        """Measure anew."""
        self.opened, self.work, self.told = None, 0.0, 0


class Packer:
    """Gives places to cells. `limit`: cells per place at most; `measured`: find out how many of
    these pay, starting with one.
    """

    def __init__(self, devices: Sequence[str], limit: int, measured: bool) -> None:
        self.measured = measured
        self.places = [_Place(device, limit, 1 if measured else limit) for device in devices]
        self.footprints: dict[str, tuple[int, float]] = {}
        """Bytes that cells of a kind held at most, and their bulk."""
        self.shapes: set[str] = set()
        """Shapes of cells that have done a round."""

    # -- asking ------------------------------------------------------------------------------------

    def take(self, cell: Cell, cost: float, now: float) -> int | None:
        """The place that a cell gets, the emptiest with room; none: it has to wait."""
        comer = _Running("", "", 0.0, (cost or 1.0) / cell.rounds)
        if self.gpu:
            comer.kind, comer.shape, comer.bulk = kind_of(cell), shape_of(cell), bulk(cell)
        for index in sorted(
            range(len(self.places)), key=lambda index: len(self.places[index].cells)
        ):
            place = self.places[index]
            if self._room(place, comer, now):
                place.cells[cell.id] = comer
                return index
        return None

    @property
    def gpu(self) -> bool:
        return self.places[0].device.startswith("cuda")

    def _room(self, place: _Place, comer: _Running, now: float) -> bool:
        count = len(place.cells)
        if count == 0:
            return True
        if count >= place.limit or (self.gpu and not self._fits(place, comer)):
            return False
        if count < place.width:
            return True
        if not self.measured or place.speed is None or place.trial is not None or now < place.again:
            return False
        place.width, place.trial, place.before, place.speed = count + 1, now, place.speed, None
        place.restart()
        return True

    def _fits(self, place: _Place, comer: _Running) -> bool:
        """Whether a cell's memory fits beside that of the others, once these or others of their
        kind have shown what they need.

        The first cell of its shape has a GPU to itself: it measures how to compute, and tries what
        takes much memory.
        """
        if comer.shape not in self.shapes or any(
            not cell.warm and cell.kind not in self.footprints for cell in place.cells.values()
        ):
            return False
        spoken = sum(
            max(cell.peak, self.footprint(cell)) + CONTEXT for cell in place.cells.values()
        )
        return max(spoken, place.used) + self.footprint(comer) + CONTEXT <= FILL * place.total

    def footprint(self, cell: _Running) -> int:
        """Bytes that a cell will hold at most: as measured of its kind, else as of the largest so
        far, or in proportion if it is larger.
        """
        if cell.kind in self.footprints:
            return self.footprints[cell.kind][0]
        peak, largest = max(self.footprints.values(), default=(0, 1.0))
        return int(peak * max(1.0, cell.bulk / max(largest, 1.0)))

    # -- being told --------------------------------------------------------------------------------

    def progressed(
        self, index: int, cell: str, rounds: int, seen: Reading | None, now: float
    ) -> None:
        """A cell has come so far, and this is how its GPU looks."""
        place = self.places[index]
        running = place.cells.get(cell)
        if running is None:
            return
        steps = 0 if running.rounds is None else rounds - running.rounds
        running.rounds, running.warm = rounds, running.warm or steps > 0
        if seen is not None:
            self._remember(place, running, seen)
        if self.measured:
            place.work += steps * running.weight
            place.told += steps
            self._measure(place, now)

    def _remember(self, place: _Place, running: _Running, seen: Reading) -> None:
        place.used, place.total = seen.total - seen.free, seen.total
        running.peak = max(running.peak, seen.peak)
        if running.warm:
            self.shapes.add(running.shape)
            known = self.footprints.get(running.kind, (0, 0.0))
            self.footprints[running.kind] = (max(known[0], running.peak), running.bulk)
        short, running.shortages = seen.shortages > running.shortages, seen.shortages
        if short and len(place.cells) > 1:  # alone, it has only itself to blame
            place.limit = len(place.cells) - 1
            place.width, place.trial = min(place.width, place.limit), None
            place.restart()

    def _measure(self, place: _Place, now: float) -> None:
        """Close a measurement once it has lasted, and judge a trial by it."""
        if len(place.cells) > place.width:  # one is left over from a trial that did not pay
            place.restart()
        elif place.opened is None:
            if len(place.cells) == place.width and all(cell.warm for cell in place.cells.values()):
                place.opened, place.work, place.told = now, 0.0, 0
        elif now - place.opened >= WINDOW and place.told >= ROUNDS * place.width:
            place.speed = place.work / (now - place.opened)
            place.restart()
            if place.trial is not None:
                self._judge(place, now, place.trial, place.speed)

    def _judge(self, place: _Place, now: float, begun: float, speed: float) -> None:
        place.trial = None
        if speed >= GAIN * place.before:
            place.patience = PATIENCE
            return
        place.width, place.speed = place.width - 1, None
        place.again, place.patience = (
            now + min(place.patience * (now - begun), LONGEST),
            2 * place.patience,
        )

    def end(self, index: int, cell: str) -> None:
        """A cell has left its place."""
        self.places[index].cells.pop(cell, None)
