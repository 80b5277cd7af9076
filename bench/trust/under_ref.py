"""Computes cells with the code of another commit: a script, for a process with that tree on its
path.

    python -P under_ref.py TREE SHARE SHARES < trials.json

It takes every SHARES-th trial from SHARE on, and prints a line of JSON for each: what came out, or
why this code has no such cell. It uses what all commits have under the same name, and imports
nothing of the commit that it is itself a file of.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

NAMES = ("repfl.bench", "bench")
"""What the harness is called: below a namespace, or as before there was one."""


def harness(tree: Path) -> str:
    """The name under which the tree's own harness is imported, and no other that is installed."""
    for name in NAMES:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:
            continue
        if found and any(
            Path(place).resolve().is_relative_to(tree)
            for place in found.submodule_search_locations or ()
        ):
            return name
    raise SystemExit(f"{tree}: has no harness that this script could use")


def compute(name: str, trial: dict[str, Any], folder: str) -> dict[str, Any]:
    """One cell by this code: its record as plain values, or why there is none."""
    cells, task, work, store = (
        import_module(f"{name}.{part}")
        for part in ("cells.cell", "running.task", "running.work", "records.store")
    )
    cell = cells.reopen(trial["cell"])
    how = {"precision": trial["how"], "checkpoint_every": 1e9, "norms": trial["how"] == "fp64"}
    known = {field.name for field in fields(task.Options)}
    options = task.Options(folder, **{key: value for key, value in how.items() if key in known})
    outcome = work.run_task(
        task.Task(cell, skip=_unmet(name)(cell)), options, lambda *_: None, lambda: False
    )
    record = store.Store(folder).get(cell.id)
    if record is None:
        return {"unknown": outcome.reason}
    return {
        "cell": record.cell,
        "status": record.status,
        "reason": record.reason,
        "metrics": record.metrics,
        "made": record.provenance,
    }


def _unmet(name: str) -> Callable[[Any], str]:
    """What tells why a cell makes no sense; earlier code has it beside the cell."""
    try:
        found = import_module(f"{name}.cells.needs")
    except ModuleNotFoundError:
        found = import_module(f"{name}.cells.cell")
    return cast("Callable[[Any], str]", found.unmet)


def view(name: str, trial: dict[str, Any]) -> dict[str, Any]:
    """What the clients of a cell hold, and how it is normalised (also where data are not here)."""
    cells, registry = (
        import_module(f"{name}.cells.cell"),
        import_module(f"{name.removesuffix('bench')}datasets.core.registry"),
    )
    clients, errors = (
        import_module(f"{name}.running.clients"),
        import_module(f"{name.removesuffix('bench')}datasets.core.errors"),
    )
    cell = cells.reopen(trial["cell"])
    described = registry.get(cell.recipe["dataset"])
    norm = described.norm(cell.recipe["norm"])
    facts = {
        "norm": [norm.scale, *norm.mean, *norm.std],
        "classes": len(described.classes),
        "shape": list(described.shape),
    }
    try:
        held = clients.clients_of(cell)
    except errors.DataError as error:
        return {"view": facts, "absent": str(error)}
    return {
        "view": facts
        | {
            "digest": held.digest,
            "floor": list(held.floor),
            "fingerprints": dict(held.fingerprints),
        }
    }


def answer(name: str, trial: dict[str, Any], folder: str) -> dict[str, Any]:
    """What this code makes of a trial."""
    try:
        return (
            view(name, trial)
            if trial["how"] == "view"
            else compute(name, trial, f"{folder}/{trial['how']}")
        )
    except import_module(f"{name}.errors").UserError as error:
        return {"unknown": str(error)}


def main(tree: Path, share: int, shares: int) -> None:
    """Answer a share of the trials on standard input; the first also says what this code is."""
    trials = json.load(sys.stdin)
    name = harness(tree)
    work, task = import_module(f"{name}.running.work"), import_module(f"{name}.running.task")
    work.prepare_process(task.Options())
    if share == 0:
        known = import_module(f"{name.removesuffix('bench')}algorithms.core.method").methods()
        provenance = import_module(f"{name}.records.provenance")
        print(
            json.dumps(
                {
                    "key": "sources",
                    "sources": {method: provenance.sources(method) for method in sorted(known)},
                }
            ),
            flush=True,
        )
    with tempfile.TemporaryDirectory(prefix="repfl-ref-") as folder:
        for trial in trials[share::shares]:
            print(json.dumps({"key": trial["key"], **answer(name, trial, folder)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3]))
