"""Selection by validation: which of several trials of a method is the best one at a recipe.

A trial is a row of an artefact, with all its seeds. Only validation accuracy chooses; the test
accuracy of the chosen trial is reported with it, that of the others is not used. A trial that
diverged or failed counts as made, and cannot be the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan
from statistics import fmean
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import UserError
from repfl.bench.evidence.cell_evidence import CellEvidence
from repfl.bench.evidence.committed.committed_run import Curve
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.dotted_names import dotted
from repfl.bench.grid.planned import Planned
from repfl.bench.store.summary import reported_curve

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

NO_RESULT = ("diverged", "failed")
DIGITS = 6
"""Means of the same shares, added up in another order, are equal."""


@dataclass(frozen=True)
class Trial:
    """A row at a recipe: its options and its result."""

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

    @cached_property
    def options(self) -> dict[str, Any]:
        """Return hyper-parameters, and fields of the recipe under dotted names."""
        recipe = dotted(self.cell.json["recipe"])
        named = {n if "." in n else f"recipe.{n}": value for n, value in recipe.items()}
        return {**self.cell.options, **named}


@dataclass(frozen=True)
class Choice:
    """All trials of a method at a recipe of an artefact; of a search, those of one seed."""

    artefact: str
    method: str
    column: str
    study: int | None
    """The seed of a search, which has trials of its own; None if the rows are the trials."""
    row: str
    """The row that is searched; empty if the rows are the trials."""
    column_key: str
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """Return the trial with the highest validation accuracy, of equal ones the first; None if
        none is done.
        """
        done = [trial for trial in self.trials if trial.status == "done" and isfinite(trial.val)]
        return max(done, key=lambda trial: round(trial.val, DIGITS), default=None)

    @property
    def open(self) -> int:
        """Return the number of trials that are still to be run."""
        return sum(trial.status == "missing" for trial in self.trials)

    @property
    def fell(self) -> int:
        """Return the number of trials that diverged or failed."""
        return sum(trial.status in NO_RESULT for trial in self.trials)

    @property
    def tried(self) -> list[str]:
        """Return the names of the options in which trials differ."""
        options = [trial.options for trial in self.trials]
        names = dict.fromkeys(name for each in options for name in each)
        return [name for name in names if len({str(each.get(name)) for each in options}) > 1]


def choices(planned: Sequence[Planned], evidence: CellEvidence) -> list[Choice]:
    """Return the trials of every method at every recipe with validation data, in the order of the
    grid. Trials that artefacts share are returned once, for the first.
    """
    unvalidated = {item.column for item in planned if not _validates(item.cell.recipe)}
    eligible = [item for item in planned if item.column not in unvalidated]
    if not eligible:
        raise UserError(
            f"recipe {min(unvalidated)}: has no validation data to choose by; set"
            " partition.val_share in it, such as 0.1"
        )
    groups: dict[tuple[str, str, str, int | None, str, str], dict[str, list[Planned]]] = {}
    for item in eligible:
        study, row = (item.cell.seed, item.row) if item.trial else (None, "")
        key = (item.key, item.cell.method, item.column_label, study, row, item.column)
        rows = groups.setdefault(key, {})
        rows.setdefault(item.trial_row, []).append(item)
    by_ids: dict[tuple[str, ...], Choice] = {}
    for key, rows in groups.items():
        ids = tuple(item.cell.id for items in rows.values() for item in items)
        if ids not in by_ids:
            trials = tuple(_trial(row, items, evidence) for row, items in rows.items())
            by_ids[ids] = Choice(*key, trials)
    return list(by_ids.values())


def chosen_options(made: Iterable[Choice]) -> dict[str, dict[str, Any]]:
    """Return what validation chose in every complete search, by the ids of the chosen cells."""
    return {
        cell: {name: best.options.get(name) for name in choice.tried}
        for choice in made
        if (best := choice.best) is not None and not choice.open
        for cell in best.ids
    }


def chosen_items(planned: Sequence[Planned], evidence: CellEvidence) -> list[Planned]:
    """Return the cells that a table shows: of every search those of the trial that validation
    chose, and all cells of no search. A search with missing trials is missing, since another trial
    may be the best.
    """
    tried = [item for item in planned if item.trial]
    if not tried:
        return list(planned)
    chosen = set()
    for choice in choices(tried, evidence):
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


def _validates(recipe: Recipe) -> bool:
    from repfl.datasets.core import partition

    return partition.has_validation(recipe.partition)


def _trial(row: str, items: Sequence[Planned], evidence: CellEvidence) -> Trial:
    records = [evidence.record(item.cell.id) for item in items]
    statuses = [
        "skipped" if item.skip else "missing" if record is None else record.status
        for item, record in zip(items, records, strict=True)
    ]
    status = _worst(statuses)
    scores = [_score(item.cell, evidence) for item in items] if status == "done" else []
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
    """Return the status of a trial from those of its seeds: one without a result decides."""
    present = set(statuses)
    return next((each for each in (*NO_RESULT, "skipped", "missing") if each in present), "done")


def _score(cell: Cell, evidence: CellEvidence) -> tuple[float, float]:
    """Return validation and test accuracy of one run in the same round: the last, or that of the
    best validation accuracy if the recipe does not report the last.
    """
    evaluation = cell.recipe.evaluation
    point, average = reported_curve(evaluation)
    names = (f"{point}/val/{average}", f"{point}/{average}")
    curves = evidence.curves(cell.id, names)
    val, test = (_by_round(curves.get(name)) for name in names)
    both = [round_ for round_ in val if round_ in test]
    if not both:
        return nan, nan
    last = evaluation.rule == "last"
    chosen = max(both) if last else max(both, key=lambda round_: (val[round_], -round_))
    return val[chosen], test[chosen]


def _by_round(curve: Curve | None) -> dict[int, float]:
    if curve is None:
        return {}
    return dict(zip(curve.rounds.tolist(), curve.values.tolist(), strict=True))
