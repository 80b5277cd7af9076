"""What a page tells of every run behind a number: from its record, or from the line that came with
the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repfl.bench.evidence.committed.committed_run import Counts, Curve
from repfl.bench.evidence.library import CellEvidence
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.run.record import as_made
from repfl.bench.store import versions
from repfl.bench.store.reported import TRAFFIC, judged
from repfl.bench.store.store import Record

POINTS = 60
"""As many points of a curve are told; more cannot be seen."""


def outcomes(
    planned: Sequence[Planned], known: CellEvidence, again: str = ""
) -> dict[str, dict[str, Any]]:
    """What came of every planned cell of which something is known, by its id. `again` are the
    options by which a command finds the same plug-ins and records.
    """
    found = {}
    for item in unique(planned):
        record, line = known.record(item.cell.id), known.line(item.cell.id)
        if record is not None:
            origin = "published" if line else "computed here"
            found[item.cell.id] = {**_facts(item, record, again), "from": origin}
    return found


def told(planned: Sequence[Planned], known: CellEvidence, again: str) -> dict[str, Any]:
    """The same with how well it is founded, its curve and its clients."""
    found = outcomes(planned, known, again)
    for cell, run in found.items():
        record, line = known.record(cell), known.line(cell)
        assert record is not None
        standing = line.currency if line else versions.of_record(record.provenance, record.cell)
        name = "/".join(judged(run["recipe"]["evaluation"]))
        done = record.status == "done"
        run |= {
            "tier": known.tiers[cell] if line else "",
            "stale": "" if standing.current else standing.reason,
            "curve": _curve(known.curves(cell, [name]).get(name) if done else None),
            "clients": _shares(known.counts(cell) if done else None),
        }
    return found


def _facts(item: Planned, record: Record, again: str) -> dict[str, Any]:
    """The outcome and what it was made with."""
    made, metrics, cell = record.provenance, record.metrics, item.cell
    floor = (metrics.get("floor") or {}).get(str(cell.recipe["evaluation"].get("average")))
    traffic, spent = metrics.get("traffic") or {}, made.get("seconds") or {}
    return {
        "method": cell.method,
        "hp": dict(cell.hp),
        "seed": cell.seed,
        "recipe": cell.recipe,
        "scale": item.scale,
        "status": record.status,
        "reason": record.reason,
        "value": _percent(metrics.get("value")),
        "round": metrics.get("round"),
        "floor": _percent(floor),
        "parameters": metrics.get("parameters"),
        "bytes": sum(int(traffic.get(name) or 0) for name in TRAFFIC) if traffic else None,
        "seconds": spent.get("wall"),
        "memory": made.get("peak_memory"),
        "device": (made.get("platform") or {}).get("device") or made.get("device"),
        "torch": (made.get("platform") or {}).get("torch"),
        "precision": made.get("precision"),
        "commit": made.get("commit"),
        "dirty": bool(made.get("dirty")),
        "contributor": made.get("contributor"),
        "finished": made.get("finished"),
        "partition": made.get("partition"),
        "command": f"{item.command}{as_made(made, cell.recipe)}{again} --fresh",
    }


def _percent(value: Any) -> float | None:
    return None if value is None else round(100 * float(value), 4)


def _curve(curve: Curve | None) -> list[list[float]]:
    """Rounds and percentages, thinned; the last round stays."""
    if curve is None:
        return []
    step = max(1, -(-len(curve.rounds) // POINTS))
    places = sorted({*range(0, len(curve.rounds), step), len(curve.rounds) - 1})
    return [[int(curve.rounds[i]), round(100 * float(curve.values[i]), 3)] for i in places]


def _shares(counts: Counts | None) -> list[float]:
    if counts is None:
        return []
    pairs = zip(counts.correct, counts.total, strict=True)
    return [round(100 * int(right) / int(total), 2) for right, total in pairs if total]


def self_test(planned: Iterable[Planned], runs: Mapping[str, Any]) -> dict[str, Any]:
    """Smoke cells, each distinct one once: methods against the rules by which digits are dealt. A
    cell that several papers share counts once.
    """
    columns: dict[str, dict[str, set[Any]]] = {}
    rows: dict[str, dict[str, list[str]]] = {}
    for item in unique(planned):
        recipe = item.cell.recipe
        rule, options = recipe["partition"]["rule"], recipe["partition"]["options"]
        known = columns.setdefault(rule, {"dealt": set(), "models": set(), "clients": set()})
        known["dealt"].update(options[key] for key in _TOLD if key in options)
        known["models"].add(recipe["model"])
        known["clients"].add(recipe["clients"])
        rows.setdefault(item.cell.method, {}).setdefault(rule, []).append(item.cell.id)
    told = [
        {"rule": rule, **{name: sorted(values) for name, values in known.items()}}
        for rule, known in columns.items()
    ]
    table = [
        {
            "method": method,
            "all": _tested([cell for ids in places.values() for cell in ids], runs),
            "cells": [_tested(places.get(rule, []), runs) for rule in columns],
        }
        for method, places in sorted(rows.items())
    ]
    return {"columns": told, "rows": table}


_TOLD = ("alpha", "classes")
"""What tells one deal of a rule from another."""


def _tested(ids: Sequence[str], runs: Mapping[str, Any]) -> dict[str, Any] | None:
    """How many runs there are of so many planned, how many beat what predicting the most frequent
    class gives, and the best accuracy.
    """
    if not ids:
        return None
    known = [runs[cell] for cell in ids if cell in runs]
    done = [run for run in known if run["status"] == "done" and run["value"] is not None]
    best = max(done, key=lambda run: run["value"], default=None)
    return {
        "planned": len(ids),
        "done": len(done),
        "here": sum(run["from"] == "computed here" for run in known),
        "fell": sum(run["status"] in ("failed", "diverged") for run in known),
        "value": best and best["value"],
        "floor": best and best["floor"],
        "above": sum(run["floor"] is not None and run["value"] > run["floor"] for run in done),
    }
