"""The frame `runs`: a row per planned cell, with its settings and what became of it.

A run is a stored record, or else the best committed run. Tables, figures and pages of a report
read these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import nan
from typing import TYPE_CHECKING, Any

import pandas as pd

from repfl.bench.evidence.cell_evidence import CellEvidence
from repfl.bench.evidence.committed.committed_run import Line
from repfl.bench.grid.dotted_names import dotted
from repfl.bench.grid.methods import find_entry, participants
from repfl.bench.grid.once import once
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.grid.recipes import recipe_values
from repfl.bench.store import versions
from repfl.bench.store.contents import Metrics, Provenance
from repfl.bench.store.record import Record
from repfl.paper_tables.core.evidence import COMMITTED, STALE

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

COLUMNS = {
    "id": "the cell: the SHA-256 of its settings",
    "method": "name of the method",
    "version": "version of the method",
    "one_model": "whether all clients get one model",
    "participants": "clients that train in a round",
    "seed": "seed of the cell",
    "status": "done; else missing, diverged, failed or skipped",
    "reason": "why there is no result",
    "accuracy": "reported accuracy, a share of 1",
    "round": "the round that it is of",
    "floor": "accuracy of always predicting a client's most frequent class, as a share of 1",
    "dataset": "name of the data set",
    "dataset_title": "its title",
    "source": "record: stored on this disk; committed: it came with the code",
    "tier": "evidence of a committed run; stale if made by other versions or with other data",
    "stale": "why it is stale",
    "bytes": "bytes of all messages",
    "parameters": "parameters of the model",
    "seconds": "seconds of CPU time",
    "wall": "seconds by the clock",
    "peak_memory": "bytes of memory at the peak",
    "device": "kind of device",
    "torch": "version of PyTorch",
    "precision": "precision of the run",
    "stack": "clients computed at once",
    "commit": "commit of the code",
    "dirty": "whether the code differed from the commit",
    "contributor": "who committed the run",
    "finished": "when it ended, in UTC",
    "partition": "SHA-256 of which client has which samples",
    "metrics": "all metrics of the record, nested",
}
"""Columns that every row has. Settings and results of several parts follow under dotted names:
`hp.*`, `recipe.*`, `partition.*` (options of the rule), `floor.*`, `traffic.*`, `work.*`.
"""


SAME = ("peak_memory", "precision", "commit", "finished", "partition")
"""Columns that provenance has under their own name."""


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return nested tables as columns; lists become tuples, which tables can group by."""
    flat = dotted(values, prefix)
    return {name: tuple(each) if isinstance(each, list) else each for name, each in flat.items()}


@cache
def _title(dataset: str) -> str:
    """Return the title of a data set; if it is not registered, its name."""
    from repfl.datasets.core.registry import get, names

    return get(dataset).title if dataset in names() else dataset


def run(item: Planned, evidence: CellEvidence) -> dict[str, Any]:
    """Return the row of a planned cell; computed once, though artefacts share cells."""
    if item.cell.id not in evidence.rows:
        cell, line = item.cell, evidence.line(item.cell.id)
        settings = flatten(cell.options, "hp.") | _recipe_columns(cell.recipe)
        record = evidence.record(cell.id) or _no_record(item, evidence)
        evidence.rows[cell.id] = row(record, line, settings)
    return evidence.rows[item.cell.id]


def _no_record(item: Planned, evidence: CellEvidence) -> Record:
    """Return why a planned cell has no result."""
    if item.skip:
        return Record(item.cell.id, item.cell.json, "skipped", item.skip)
    return Record(item.cell.id, item.cell.json, "missing", evidence.why_missing(item.cell.id))


def row(
    record: Record, line: Line | None, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the row of a cell. `line` is the committed run that the record is taken from;
    `settings` are the columns of its options and its recipe.
    """
    cell, origin = record.cell, record.provenance
    done, recipe, found = record.status == "done", cell["recipe"], find_entry(cell["method"])
    stale = ""
    if origin is not None:
        stale = (line.currency if line else versions.of_record(origin, cell)).reason
    tier = COMMITTED if line is not None and done else ""
    if settings is None:
        settings = flatten(cell["hp"], "hp.") | _settings(recipe)
    return {
        **dict.fromkeys(COLUMNS),
        "id": record.id,
        "method": cell["method"],
        "version": cell["version"],
        "one_model": found is not None and found.one_model,
        "participants": participants(cell["method"], record.recipe),
        "seed": cell["seed"],
        "status": record.status,
        "reason": record.reason,
        "accuracy": record.value if done and record.value is not None else nan,
        "dataset": recipe["dataset"],
        "dataset_title": _title(recipe["dataset"]),
        "source": "record" if line is None else "committed",
        "tier": ", ".join(filter(None, (tier, STALE if stale and done else ""))),
        "stale": stale,
        "metrics": record.metrics,
        **_conditions(origin),
        **settings,
        **_numbers(record.metrics, recipe["evaluation"]["average"]),
    }


def _numbers(metrics: Metrics | None, average: str) -> dict[str, Any]:
    """Return the columns of what a run found."""
    if metrics is None:
        return {}
    floor = metrics.floor.plain if metrics.floor else {}
    traffic = metrics.traffic.plain if metrics.traffic else {}
    return {
        "round": metrics.round,
        "floor": metrics.floor.by(average) if metrics.floor else None,
        "bytes": metrics.traffic.total if metrics.traffic else None,
        "parameters": metrics.parameters,
        **flatten(floor, "floor."),
        **flatten(traffic, "traffic."),
    }


def _conditions(origin: Provenance | None) -> dict[str, Any]:
    """Return the columns of how a run was made."""
    if origin is None:
        return {"dirty": False}
    work = origin.work.plain if origin.work else {}
    return {
        "seconds": origin.seconds and origin.seconds.processor,
        "wall": origin.seconds and origin.seconds.wall,
        "device": origin.platform.device or origin.device,
        "torch": origin.platform.torch,
        "stack": origin.chunk,
        "dirty": bool(origin.dirty),
        "contributor": origin.contributor or None,
        **{name: getattr(origin, name) for name in SAME},
        **flatten(work, "work."),
    }


@once
def _recipe_columns(recipe: Recipe) -> dict[str, Any]:
    return _settings(recipe_values(recipe))


def _settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's settings as columns."""
    return flatten(recipe["partition"]["options"], "partition.") | flatten(recipe, "recipe.")


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a frame."""
    runs = pd.DataFrame(rows, columns=None if rows else list(COLUMNS))
    # artefacts take many small selections: words as one block of objects are taken ten times as
    # fast as columns of their own
    text = [name for name, kind in runs.dtypes.items() if isinstance(kind, pd.StringDtype)]
    return runs.astype(dict.fromkeys(text, object)).copy()


def runs(planned: Sequence[Planned], evidence: CellEvidence) -> pd.DataFrame:
    """Return the frame of planned cells, each cell once."""
    return frame([run(item, evidence) for item in unique(planned)])
