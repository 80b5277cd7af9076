"""What cells will cost: their operations, at the pace of a machine, corrected by what cells took.

An estimate has a range: eight in ten cells should fall into it. `operations` counts, `pace` knows
how long an operation takes, and the records of a store say by how much a model, a method or cells
that are alike take longer or shorter than that. On a CPU records speak by their processor time,
which other programs hardly move; records that have none are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, hypot, log
from statistics import median
from typing import Any

from repfl.bench.cells.cell import Cell, canonical
from repfl.bench.cells.planned import Planned
from repfl.bench.errors import Corrupt, UserError
from repfl.bench.records.store import Record, Store
from repfl.bench.running import operations, pace
from repfl.bench.running.pace import Pace

START = 0.05
"""Seconds that a cell costs beside training and scoring."""
ENOUGH = 1000
"""Training samples from which on a run says something about speed. A cell that is there for its
bytes trains on a handful.
"""
LOOKED_AT = 400
"""Records that are read for an estimate at most; ids are hashes, so that the first ones are a fair
choice.
"""
RESERVE = 0.5
"""So many records of cells that are alike count as much as what is known without them."""
REACH = 1.28
"""Deviations to either side that hold eight of ten."""
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Cost:
    """Seconds of one worker, with the ends of their range."""

    seconds: float
    low: float
    high: float

    def per(self, workers: int) -> Cost:
        """What each of so many workers has of it."""
        return Cost(self.seconds / workers, self.low / workers, self.high / workers)


def _levels(method: str, hp: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[str]:
    """What cells have in common, from what many share to what few share."""
    batch, epochs = recipe["training"]["batch"], recipe["training"]["epochs"]
    model = f"{recipe['model']} {operations.shape_of(recipe)[1:]} {batch}"
    kind = f"{method} {canonical(hp)} {epochs} {canonical(recipe['partition']['options'])}"
    return ["", model, f"{method} {model}", f"{kind} {model}"]


@dataclass(frozen=True)
class Speeds:
    """How long cells take on a kind of device."""

    pace: Pace = field(default_factory=pace.reference)
    learned: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    """By what cells have in common: the logarithm of a correction, and of how many records."""
    models: frozenset[str] = frozenset()
    """Those that were measured."""

    @classmethod
    def of(cls, records: Iterable[Record], known: Pace) -> Speeds:
        """What records say. A correction explains what those of larger groups leave."""
        rows = []
        for record in records:
            method, hp, recipe = (record.cell[name] for name in ("method", "hp", "recipe"))
            done = operations.work(method, hp, recipe, **how_of(record))
            expected = known.seconds(done, method)
            if (spent := spent_by(record)) and expected > 0:
                rows.append((_levels(method, hp, recipe), log(spent / (START + expected)), recipe))
        learned: dict[str, tuple[float, int]] = {}
        left = [error for _, error, _ in rows]
        for depth in range(len(rows[0][0]) if rows else 0):
            groups: dict[str, list[float]] = {}
            for (levels, _, _), error in zip(rows, left, strict=True):
                groups.setdefault(levels[depth], []).append(error)
            for name, errors in groups.items():
                trust = 1.0 if depth == 0 else len(errors) / (len(errors) + RESERVE)
                learned[name] = trust * median(errors), len(errors)
            left = [
                error - learned[levels[depth]][0]
                for (levels, _, _), error in zip(rows, left, strict=True)
            ]
        return cls(known, learned, frozenset(recipe["model"] for _, _, recipe in rows))

    def seconds(self, cell: Cell) -> float:
        """Seconds of one worker for a cell."""
        done = operations.work(cell.method, cell.hp, cell.recipe)
        known = [self.learned.get(name) for name in _levels(cell.method, cell.hp, cell.recipe)]
        correction = exp(sum(each[0] for each in known if each))
        return correction * (START + self.pace.seconds(done, cell.method))

    def cost(self, cells: Iterable[Cell]) -> Cost:
        """All of these together, with a range. What nobody knows of a machine is off for all alike,
        what nobody knows of a method with a model for all such cells, the rest for each alone.
        """
        groups: dict[str, float] = {}
        total = alone = 0.0
        off = pace.errors()
        for cell in cells:
            seconds, (_, _, group, kind) = (
                self.seconds(cell),
                _levels(cell.method, cell.hp, cell.recipe),
            )
            total += seconds
            unlike = off["cell"] if kind not in self.learned else off["alike"]
            groups[group] = groups.get(group, 0.0) + unlike * seconds
            alone = hypot(alone, off["alike"] * seconds)
        if not total:
            return Cost(0.0, 0.0, 0.0)
        machine = off["alike"] if self.learned else off["calibrated" if self.pace.scale else "else"]
        spread = REACH * hypot(machine * total, alone, *groups.values()) / total
        return Cost(total, total * exp(-spread), total * exp(spread))

    def knows(self, recipe: Mapping[str, Any]) -> bool:
        """Whether a cell's model was measured."""
        return recipe["model"] in self.models


def spent_by(record: Record) -> float | None:
    """Seconds that a cell took by itself: of a processor, or on a GPU by the clock."""
    told = record.provenance["seconds"]
    if record.provenance["device"].startswith("cuda"):
        return float(told["train"] + told["evaluate"])
    spent = told.get("processor")
    return None if spent is None else float(spent)


def how_of(record: Record) -> dict[str, Any]:
    """How many clients a processor took at once, and how it computed convolutions; a GPU's choices
    are no matter of counting.
    """
    told = record.provenance
    if told["device"].startswith("cuda"):
        return {}
    return {"chunk": told["chunk"], "conv": operations.conv_of(told)}


def static(item: Planned) -> float:
    """Seconds of a cell without a look at any store or machine, hence equal everywhere, always:
    worked out once per cell, since artefacts share them.
    """
    if item.cell.id not in _STATIC:
        _STATIC[item.cell.id] = Speeds().seconds(item.cell)
    return _STATIC[item.cell.id]


_STATIC: dict[str, float] = {}


def measured(store: Store, read: Callable[[str], Record | None] | None = None) -> dict[str, Speeds]:
    """What a store says about each kind of device; `read` is `store.get`, if it remembers."""
    ids = store.ids()[:LOOKED_AT]
    telling = [record for cell in ids if (record := _telling(read or store.get, cell)) is not None]
    paces = {"cpu": pace.here(), "cuda": pace.reference()}
    return {
        kind: Speeds.of(
            (record for record in telling if record.provenance["device"].startswith(kind)),
            paces[kind],
        )
        for kind in DEVICES
    }


def _telling(read: Callable[[str], Record | None], cell: str) -> Record | None:
    """The record of a finished cell that trained long enough to speak of speed; of one whose data
    set or model is not known here any more nothing can be told.
    """
    from repfl.datasets.core.errors import DataError

    try:
        record = read(cell)
        if record is None or record.status != "done":
            return None
        done = operations.work(*(record.cell[name] for name in ("method", "hp", "recipe")))
    except (Corrupt, UserError, DataError, KeyError):
        return None
    return record if done.samples >= ENOUGH else None


# -- in words --------------------------------------------------------------------------------------


def forecast(planned: Sequence[Planned], speeds: Mapping[str, Speeds]) -> dict[str, Any]:
    """What cells will cost on a CPU, and on a GPU as far as their models have run on one; and how
    much of either has been measured.
    """
    known = {
        kind: [item for item in planned if speeds[kind].knows(item.cell.recipe)] for kind in DEVICES
    }
    counted = {"cpu": planned, "cuda": known["cuda"]}
    lines = {
        kind: {
            **vars(speeds[kind].cost(item.cell for item in counted[kind])),
            "measured": len(known[kind]),
        }
        for kind in DEVICES
    }
    lines["cpu"]["calibrated"] = bool(speeds["cpu"].pace.scale)
    return {"cells": len(planned), **lines}


def in_words(forecast: Mapping[str, Any]) -> str:
    """A forecast in words."""
    cells, cpu, gpu = forecast["cells"], forecast["cpu"], forecast["cuda"]
    text = f"{cells:,} cells to compute: about {between(Cost(*_ends(cpu)))} of one CPU worker"
    text += f" ({_basis(cells, cpu)})"
    if gpu["measured"]:
        share = "" if gpu["measured"] == cells else f" for the {gpu['measured']:,} whose models"
        return (
            f"{text}; about {between(Cost(*_ends(gpu)))} of one GPU{share}, as measured by cells of"
            " this store"
        )
    return (
        f"{text}; GPU hours cannot be told, since no cell of this store has run their models on"
        " a GPU"
    )


def _ends(told: Mapping[str, Any]) -> tuple[float, float, float]:
    return told["seconds"], told["low"], told["high"]


def _basis(cells: int, cpu: Mapping[str, Any]) -> str:
    """What an estimate rests on."""
    pace_of = "at this machine's pace" if cpu["calibrated"] else "at a reference pace"
    if not cpu["measured"]:
        hint = "" if cpu["calibrated"] else "; `repfl doctor` measures this machine's"
        return f"by their operations, {pace_of}{hint}"
    if cpu["measured"] == cells:
        return "by their operations, and their models were measured here"
    return f"by their operations, and the models of {cpu['measured']:,} were measured here"


def between(cost: Cost) -> str:
    """An estimate with its range: `2.0 h, 1.6 to 2.5 h`."""
    low, high = duration(cost.low), duration(cost.high)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{duration(cost.seconds)}, {low} to {high}"


def duration(seconds: float) -> str:
    """A duration in words short enough for a table."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"
