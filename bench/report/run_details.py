"""Facts about the runs behind numbers, from records or from the lines that came with the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any

from repfl.bench.evidence.cell_evidence import CellEvidence
from repfl.bench.evidence.committed.committed_run import Counts, Curve
from repfl.bench.evidence.runs import run
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.run.record_parts import rerun_options
from repfl.bench.store.record import Record
from repfl.bench.store.summary import reported_curve
from repfl.paper_tables.core.evidence import STALE

MAX_CURVE_POINTS = 60
"""Approximate number of points that a curve is thinned to; more cannot be seen."""


def outcomes(
    planned: Sequence[Planned], evidence: CellEvidence, again: str = ""
) -> dict[str, dict[str, Any]]:
    """Return the outcome of every planned cell with a result, by its id. `again` are the options by
    which a command finds the same plug-ins and records.
    """
    return {
        item.cell.id: _facts(item, run(item, evidence), record, again)
        for item in unique(planned)
        if (record := evidence.record(item.cell.id)) is not None
    }


def describe_runs(planned: Sequence[Planned], evidence: CellEvidence, again: str) -> dict[str, Any]:
    """Return outcomes with evidence, curve and clients' accuracies."""
    described = outcomes(planned, evidence, again)
    for cell, facts in described.items():
        record = evidence.record(cell)
        assert record is not None
        name, done = "/".join(reported_curve(record.recipe.evaluation)), facts["status"] == "done"
        facts |= {
            "tier": facts["tier"].removesuffix(STALE).removesuffix(", "),
            "curve": _curve(evidence.curves(cell, [name]).get(name) if done else None),
            "clients": _shares(evidence.counts(cell) if done else None),
        }
    return described


SAME = (
    "method", "seed", "status", "reason", "round", "parameters", "bytes", "device", "torch",
    "precision", "commit", "dirty", "contributor", "finished", "partition", "tier", "stale",
)  # fmt: skip
"""Columns of `runs` that pages show under their own name."""


def _facts(item: Planned, row: Mapping[str, Any], record: Record, again: str) -> dict[str, Any]:
    """Return the outcome, and the conditions of the run."""
    cell = item.cell
    return {
        **{name: row[name] for name in SAME},
        "hp": dict(cell.options),
        "recipe": cell.json["recipe"],
        "scale": item.scale,
        "value": _percent(row["accuracy"]),
        "floor": _percent(row["floor"]),
        "seconds": row["wall"],
        "memory": row["peak_memory"],
        "command": f"{item.command}{rerun_options(record.origin, cell.recipe)}{again} --fresh",
        "from": "committed" if row["source"] == "committed" else "computed here",
    }


def _percent(value: Any) -> float | None:
    return None if value is None or isnan(value) else round(100 * float(value), 4)


def _curve(curve: Curve | None) -> list[list[float]]:
    """Return rounds and percentages, thinned; the last round stays."""
    if curve is None:
        return []
    step = max(1, -(-len(curve.rounds) // MAX_CURVE_POINTS))
    indices = sorted({*range(0, len(curve.rounds), step), len(curve.rounds) - 1})
    return [[int(curve.rounds[i]), round(100 * float(curve.values[i]), 3)] for i in indices]


def _shares(counts: Counts | None) -> list[float]:
    if counts is None:
        return []
    pairs = zip(counts.correct, counts.total, strict=True)
    return [round(100 * int(right) / int(total), 2) for right, total in pairs if total]


def outcome_table(planned: Iterable[Planned], runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the self-test: methods by partition rules of digits, from smoke cells. A cell that
    several papers share counts once.
    """
    columns: dict[str, dict[str, set[Any]]] = {}
    rows: dict[str, dict[str, list[str]]] = {}
    for item in unique(planned):
        recipe = item.cell.recipe
        rule, options = recipe.partition.rule, recipe.partition.options
        column = columns.setdefault(rule, {"dealt": set(), "models": set(), "clients": set()})
        column["dealt"].update(options[key] for key in _SHOWN_OPTIONS if key in options)
        column["models"].add(recipe.model)
        column["clients"].add(recipe.clients)
        rows.setdefault(item.cell.method, {}).setdefault(rule, []).append(item.cell.id)
    heads = [
        {"rule": rule, **{name: sorted(values) for name, values in column.items()}}
        for rule, column in columns.items()
    ]
    table = [
        {
            "method": method,
            "all": _count_outcomes([cell for ids in by_rule.values() for cell in ids], runs),
            "cells": [_count_outcomes(by_rule.get(rule, []), runs) for rule in columns],
        }
        for method, by_rule in sorted(rows.items())
    ]
    return {"columns": heads, "rows": table}


_SHOWN_OPTIONS = ("alpha", "classes")
"""The options that distinguish partitions of one rule."""


def _count_outcomes(ids: Sequence[str], runs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Count runs that are planned, that exist, and that are above the majority-class baseline; with
    the best accuracy.
    """
    if not ids:
        return None
    results = [runs[cell] for cell in ids if cell in runs]
    done = [run for run in results if run["status"] == "done" and run["value"] is not None]
    best = max(done, key=lambda run: run["value"], default=None)
    return {
        "planned": len(ids),
        "done": len(done),
        "here": sum(run["from"] == "computed here" for run in results),
        "fell": sum(run["status"] in ("failed", "diverged") for run in results),
        "value": best and best["value"],
        "floor": best and best["floor"],
        "above": sum(run["floor"] is not None and run["value"] > run["floor"] for run in done),
    }
