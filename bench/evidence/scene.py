"""What is planned at paper scale, and what it is good for: the printed numbers and sentences that
every cell serves, with what is known of them already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite
from typing import Any

import pandas as pd

from repfl.bench.cells.cell import canonical
from repfl.bench.cells.planned import Planned
from repfl.bench.evidence import artefacts, measured, noise, recheck
from repfl.bench.evidence.library import Known, Library, StoredEvidence
from repfl.paper_tables.core.evidence import Arrays, Reduce
from repfl.paper_tables.core.noise import Noise, pool
from repfl.paper_tables.core.prospect import SETTLED, Prospect, apart, prospect
from repfl.paper_tables.core.result import Result, frame_of
from repfl.paper_tables.core.statistics import Expected
from repfl.paper_tables.core.verdict import UNJUDGED, Kind, Runs

SCALE = "paper"
"""The only scale whose cells settle anything printed."""
COUNTED = (Kind.TRAINED, Kind.LOGGED)
THEIRS = re.compile(r"(\d+) runs? of theirs")
"""How many runs of the paper's a verdict rests on, as its basis says."""


@dataclass(frozen=True)
class Number:
    """A printed accuracy that runs can settle."""

    artefact: str
    row: str
    column: str
    printed: Runs
    ids: tuple[str, ...]
    """The cells that ours is a mean over."""
    expected: Expected
    ours: Runs | None = None
    """What is measured of it."""
    verdict: str = ""
    """Of what is measured."""

    @property
    def settled(self) -> bool:
        return self.verdict in SETTLED

    def chance(self, runs: int, spread: float) -> Prospect:
        """Of being settled with so many runs; what is settled stays so."""
        if self.settled:
            return Prospect()
        return prospect(self.expected, self.printed, self.ours, runs, spread)

    def __str__(self) -> str:
        return f"{self.artefact} {self.row}, {self.column}"


@dataclass(frozen=True)
class Scene:
    """What is planned at paper scale, and what it is good for."""

    planned: Mapping[str, Planned]
    """By cell; each once."""
    numbers: Sequence[Number]
    sentences: Mapping[str, float]
    """What an open cell counts for among sentences."""
    done: frozenset[str]
    spread: float
    """How far ours and printed numbers are apart."""

    @cached_property
    def settings(self) -> dict[str, list[Planned]]:
        """The planned cells by what they are but for their seed."""
        found: dict[str, list[Planned]] = {}
        for item in self.planned.values():
            found.setdefault(_setting(item), []).append(item)
        return found

    @cached_property
    def served(self) -> dict[str, list[Number]]:
        """The numbers that every cell is for."""
        found: dict[str, list[Number]] = {}
        for number in self.numbers:
            for cell in number.ids:
                found.setdefault(cell, []).append(number)
        return found


def _setting(item: Planned) -> str:
    cell = item.cell.json
    return canonical({name: value for name, value in cell.items() if name != "seed"})


ROUNDS = {"mean": 0.5, "pooled": 0.5, "std": 0.1, "decile": 0.3, "round": 1}
POINT = dict.fromkeys(("last", "max", "best_val"), ROUNDS)
SUPPOSED = {
    "value": 0.5,
    "round": 1,
    "points": dict.fromkeys(("start", "pre_agg", "post_agg", "dense", "newcomers"), POINT),
    "floor": {"clients": 0.1, "pooled": 0.1},
}
"""Metrics of a cell, as if it were done."""


class Supposed(StoredEvidence):
    """Evidence in which every planned cell is done, so that artefacts say which cells their numbers
    are from, and how these are judged.
    """

    def _came_of(self, item: Planned) -> tuple[str, str, Mapping[str, Any], Mapping[str, Any]]:
        return ("skipped", item.skip, {}, {}) if item.skip else ("done", "", SUPPOSED, {})

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        spans = {item.cell.id: range(1, item.cell.rounds + 1) for item in self._planned}
        asked = product(dict.fromkeys(ids), [name for name in names if not name.endswith("/")])
        rows = [(cell, each, name, 0.5) for cell, name in asked for each in spans.get(cell, ())]
        return pd.DataFrame(rows, columns=["id", "round", "name", "value"])

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        return {}

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        return super().clients([])


def scene(planned: Sequence[Planned], library: Library) -> Scene:
    """What these cells of the paper scale are good for, with what is known already."""
    model = noise.fitted()
    numbers: list[Number] = []
    sentences: dict[str, float] = {}
    first: dict[str, Planned] = {}
    for item in planned:
        first.setdefault(item.cell.id, item)
    known = {paper: recheck.read(paper, SCALE) for paper in {item.paper for item in planned}}
    done = _done(first.values(), library, known)
    for items in _by_artefact(planned).values():
        made = artefacts.Made()
        published = artefacts.published_by(items[0].paper, made)
        whole = (Known(library, known[items[0].paper]), published, model)
        supposed = artefacts.one(items[0], Supposed(items, *whole), made)
        real = None
        if any(item.cell.id in done for item in items):
            real = artefacts.one(items[0], StoredEvidence(items, *whole), made)
        numbers += _numbers(supposed, real, first, model)
        for cell, share in _shares(supposed, real, items, done).items():
            sentences[cell] = sentences.get(cell, 0.0) + share
    seen = [n.ours.mean - n.printed.mean for n in numbers if n.ours is not None]
    return Scene(first, numbers, sentences, done, apart(seen))


def _done(
    planned: Iterable[Planned], library: Library, known: Mapping[str, measured.Measured]
) -> frozenset[str]:
    return frozenset(
        item.cell.id
        for item in planned
        if library.record(item.cell.id) is not None or item.cell.id in known[item.paper].cells
    )


def _by_artefact(planned: Sequence[Planned]) -> dict[str, list[Planned]]:
    found: dict[str, list[Planned]] = {}
    for item in planned:
        found.setdefault(item.key, []).append(item)
    return found


def _frame(result: Result | None) -> pd.DataFrame:
    found = frame_of(result)
    return found if {"source", "ids", "verdict"} <= set(found.columns) else pd.DataFrame()


def _numbers(
    supposed: Result, real: Result | None, first: Mapping[str, Planned], model: Noise
) -> Iterator[Number]:
    """The accuracies of an artefact that would be judged if all of its cells were done."""
    measured_ = {}
    for row in _frame(real).to_dict("records"):
        if row["verdict"] not in UNJUDGED and isfinite(row["ours"]):
            measured_[row["source"], row["row"], row["column"]] = row
    for row in _frame(supposed).to_dict("records"):
        theirs = THEIRS.search(str(row.get("basis", "")))
        if row["kind"] not in COUNTED or row["verdict"] in UNJUDGED or theirs is None:
            continue
        runs = int(theirs[1])
        widened = (runs / (runs - 1)) ** 0.5 if runs > 1 and row["published_std"] > 0 else None
        std = row["published_std"] * widened if widened else float("nan")
        cell = first[row["ids"][0]]
        seen = measured_.get((row["source"], row["row"], row["column"]))
        yield Number(
            supposed.key,
            row["row"],
            row["column"],
            Runs(row["published"], std, runs),
            row["ids"],
            _expected(cell, model),
            None if seen is None else Runs(seen["ours"], seen["std"], seen["seeds"]),
            "" if seen is None else str(seen["verdict"]),
        )


def _expected(item: Planned, model: Noise) -> Expected:
    where = pool(SCALE, one_partition=item.cell.recipe["partition"]["seed"] is not None)
    return model.expected(where, f"{item.paper}/{item.column}", item.cell.method)


def _shares(
    supposed: Result, real: Result | None, items: Sequence[Planned], done: frozenset[str]
) -> dict[str, float]:
    """An equal share for every open cell in the sentences that cannot be told yet, and could be."""
    told = {claim.id for claim in (real.claims if real else ()) if claim.found is not None}
    open_ = {item.cell.id for item in items} - done
    count = sum(
        claim.found is not None and not claim.free and claim.id not in told
        for claim in supposed.claims
    )
    return {cell: count / len(open_) for cell in open_} if open_ else {}
