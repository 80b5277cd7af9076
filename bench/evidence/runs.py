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
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.dotted_names import dotted
from repfl.bench.grid.methods import entry
from repfl.bench.grid.once import once
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.grid.recipes import recipe_values
from repfl.bench.store import versions
from repfl.paper_tables.core.evidence import COMMITTED, STALE

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

COLUMNS = {
    "id": "the cell: the SHA-256 of its settings",
    "method": "name of the method",
    "version": "version of the method",
    "one_model": "whether all clients get one model",
    "seed": "seed of the cell",
    "status": "done; else missing, diverged, failed or skipped",
    "reason": "why there is no result",
    "value": "reported accuracy, a share of 1",
    "round": "the round that it is of",
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
        evidence.rows[item.cell.id] = _run(item, evidence)
    return evidence.rows[item.cell.id]


def _run(item: Planned, evidence: CellEvidence) -> dict[str, Any]:
    cell = item.cell
    status, reason, metrics, origin = _outcome(item, evidence)
    line, recipe, done = evidence.line(cell.id), cell.recipe, status == "done"
    value, traffic = metrics.get("value"), metrics.get("traffic") or {}
    seconds, platform = origin.get("seconds") or {}, origin.get("platform") or {}
    stale = _stale(origin, cell, evidence) if origin else ""
    tier = COMMITTED if line is not None and done else ""
    return {
        "id": cell.id,
        "method": cell.method,
        "version": cell.version,
        "one_model": entry(cell.method).one_model,
        "seed": cell.seed,
        "status": status,
        "reason": reason,
        "value": float(value) if done and value is not None else nan,
        "round": metrics.get("round"),
        "dataset": recipe.dataset,
        "dataset_title": _title(recipe.dataset),
        "source": "record" if line is None else "committed",
        "tier": ", ".join(filter(None, (tier, STALE if stale and done else ""))),
        "stale": stale,
        "bytes": sum(int(each or 0) for each in traffic.values()) if traffic else None,
        "parameters": metrics.get("parameters"),
        "seconds": seconds.get("processor"),
        "wall": seconds.get("wall"),
        "peak_memory": origin.get("peak_memory"),
        "device": platform.get("device") or origin.get("device"),
        "torch": platform.get("torch"),
        "precision": origin.get("precision"),
        "stack": origin.get("chunk"),
        "commit": origin.get("commit"),
        "dirty": bool(origin.get("dirty")),
        "contributor": origin.get("contributor"),
        "finished": origin.get("finished"),
        "partition": origin.get("partition"),
        "metrics": metrics,
        **flatten(origin.get("work") or {}, "work."),
        **_settings(cell),
        **flatten(metrics.get("floor", {}), "floor."),
        **flatten(traffic, "traffic."),
    }


def _settings(cell: Cell) -> dict[str, Any]:
    """Return a cell's settings as columns."""
    return flatten(cell.options, "hp.") | _recipe_columns(cell.recipe)


@once
def _recipe_columns(recipe: Recipe) -> dict[str, Any]:
    options = flatten(recipe.partition.options, "partition.")
    return options | flatten(recipe_values(recipe), "recipe.")


def _outcome(
    item: Planned, evidence: CellEvidence
) -> tuple[str, str, Mapping[str, Any], Mapping[str, Any]]:
    """Return status, reason, metrics and provenance of a planned cell, or why it has none."""
    if (record := evidence.record(item.cell.id)) is not None:
        return record.status, record.reason, record.metrics, record.provenance
    if item.skip:
        return "skipped", item.skip, {}, {}
    return "missing", evidence.why_missing(item.cell.id), {}, {}


def _stale(origin: Mapping[str, Any], cell: Cell, evidence: CellEvidence) -> str:
    """Return why a result is stale; empty if it is current."""
    line = evidence.line(cell.id)
    return (line.currency if line else versions.of_record(origin, cell.json)).reason


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
