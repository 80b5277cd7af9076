"""Selection by validation: which of several trials of a method is the best one at a recipe.

A trial is a row of an artefact, with all its seeds. Only validation accuracy chooses; the test
accuracy of the chosen trial is told beside it, and of the others it plays no part. A trial that
diverged or failed counts as one that was made, and cannot be the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean
from typing import Any

from repfl.bench.errors import UserError
from repfl.bench.evidence.committed.committed_run import Curve
from repfl.bench.evidence.library import CellEvidence
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.dotted_names import dotted
from repfl.bench.grid.planned import Planned
from repfl.bench.store.reported import judged

FELL = ("diverged", "failed")
DIGITS = 6
"""Means of the same shares, added up in another order, are equal."""


@dataclass(frozen=True)
class Trial:
    """A row at a recipe: what was tried, and what came of it."""

    row: str
    cell: Cell
    """Of the first seed; the others differ in nothing else."""
    status: str
    """done; else missing, diverged, failed or skipped, as one of its seeds is."""
    val: float
    """Mean over seeds, in percent, as is the test accuracy."""
    test: float
    seeds: tuple[int, ...]
    ids: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Hyper-parameters, and fields of the recipe, under dotted names."""
        recipe = dotted(self.cell.recipe)
        named = {n if "." in n else f"recipe.{n}": value for n, value in recipe.items()}
        return {**self.cell.hp, **named}


@dataclass(frozen=True)
class Choice:
    """All trials of a method at a recipe of an artefact; of a search, those of one seed."""

    artefact: str
    method: str
    column: str
    study: int | None
    """The seed of a search, whose trials are its own; none: the rows are the trials."""
    row: str
    """The row that is searched; empty: the rows are the trials."""
    column_key: str
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The trial with the highest validation accuracy, of equal ones the first; none where none
        is done.
        """
        done = [trial for trial in self.trials if trial.status == "done" and isfinite(trial.val)]
        return max(done, key=lambda trial: round(trial.val, DIGITS), default=None)

    @property
    def open(self) -> int:
        """Trials that are still to be made."""
        return sum(trial.status == "missing" for trial in self.trials)

    @property
    def fell(self) -> int:
        """Trials that came to nothing."""
        return sum(trial.status in FELL for trial in self.trials)

    @property
    def tried(self) -> list[str]:
        """The options in which trials differ."""
        options = [trial.options for trial in self.trials]
        names = dict.fromkeys(name for each in options for name in each)
        return [name for name in names if len({str(each.get(name)) for each in options}) > 1]


def choices(planned: Sequence[Planned], known: CellEvidence) -> list[Choice]:
    """Every method at every recipe that has validation data, in the order of the grid; where
    artefacts share trials, of the first.
    """
    blind = {item.column for item in planned if not _validates(item.cell.recipe)}
    seen = [item for item in planned if item.column not in blind]
    if not seen:
        raise UserError(
            f"recipe {min(blind)}: has no validation data to choose by; set partition.val_share in"
            " it, such as 0.1"
        )
    groups: dict[tuple[str, str, str, int | None, str, str], dict[str, list[Planned]]] = {}
    for item in seen:
        study, row = (item.cell.seed, item.row) if item.trial else (None, "")
        place = (item.key, item.cell.method, item.column_label, study, row, item.column)
        rows = groups.setdefault(place, {})
        rows.setdefault(item.trial_row, []).append(item)
    found: dict[tuple[str, ...], Choice] = {}  # artefacts share trials
    for place, rows in groups.items():
        ids = tuple(item.cell.id for items in rows.values() for item in items)
        if ids not in found:
            trials = tuple(_trial(row, items, known) for row, items in rows.items())
            found[ids] = Choice(*place, trials)
    return list(found.values())


def settled(planned: Sequence[Planned], known: CellEvidence) -> list[Planned]:
    """What stands in a table: of every search the trial that validation chose, and what belongs to
    no search as it is. A search that has trials to make is missing: another one may be the best.
    """
    tried = [item for item in planned if item.trial]
    if not tried:
        return list(planned)
    chosen = set()
    for choice in choices(tried, known):
        best = choice.best
        if best is None or choice.open:
            best = next((each for each in choice.trials if each.status == "missing"), None)
        chosen |= set((best or choice.trials[0]).ids)
    return [item for item in planned if not item.trial or item.cell.id in chosen]


def validated(planned: Sequence[Planned]) -> bool:
    """Return whether any recipe has validation data to choose by."""
    return any(
        _validates(recipe)
        for recipe in {item.column: item.cell.recipe for item in planned}.values()
    )


def _validates(recipe: Mapping[str, Any]) -> bool:
    from repfl.datasets.core import partition
    from repfl.datasets.core.recipe import Partition

    return partition.has_validation(Partition(**recipe["partition"]))


def _trial(row: str, items: Sequence[Planned], known: CellEvidence) -> Trial:
    records = [known.record(item.cell.id) for item in items]
    statuses = [
        "skipped" if item.skip else "missing" if record is None else record.status
        for item, record in zip(items, records, strict=True)
    ]
    status = _worst(statuses)
    scores = [_score(item.cell, known) for item in items] if status == "done" else []
    return Trial(
        row,
        items[0].cell,
        status,
        100 * fmean(val for val, _ in scores) if scores else nan,
        100 * fmean(test for _, test in scores) if scores else nan,
        tuple(item.cell.seed for item in items),
        tuple(item.cell.id for item in items),
    )


def _worst(statuses: Iterable[str]) -> str:
    """What a trial comes to with these of its seeds: one that fell is enough to tell."""
    found = set(statuses)
    return next((each for each in (*FELL, "skipped", "missing") if each in found), "done")


def _score(cell: Cell, known: CellEvidence) -> tuple[float, float]:
    """Validation and test accuracy of one run, in the same round: the last, or that of the best
    validation accuracy where the recipe does not report the last.
    """
    evaluation = cell.recipe["evaluation"]
    point, average = judged(evaluation)
    names = (f"{point}/val/{average}", f"{point}/{average}")
    curves = known.curves(cell.id, names)
    val, test = (_by_round(curves.get(name)) for name in names)
    both = [round_ for round_ in val if round_ in test]
    if not both:
        return nan, nan
    last = evaluation["rule"] == "last"
    chosen = max(both) if last else max(both, key=lambda round_: (val[round_], -round_))
    return val[chosen], test[chosen]


def _by_round(curve: Curve | None) -> dict[int, float]:
    if curve is None:
        return {}
    return dict(zip(curve.rounds.tolist(), curve.values.tolist(), strict=True))
