"""The regression gate: small cells of every method in float64, against a committed reference.

Seeds are compared one by one: counts of correct predictions, sizes of states after every round,
metrics, bytes. See `gate.compare` for what rounding may change.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.algorithms import core
from repfl.bench.check.gate.cells import SEEDS, GateCell, method_of, places
from repfl.bench.check.gate.compare import Move, difference, first_move
from repfl.bench.check.gate.entries import Entry, entry_of
from repfl.bench.check.gate.reference import FILE, SCHEMA, read_reference, write_reference
from repfl.bench.errors import FAILED, UserError
from repfl.bench.grid.cell import parse_spec
from repfl.bench.run import cost
from repfl.bench.store import provenance
from repfl.bench.store.store import Store

if TYPE_CHECKING:
    from repfl.bench.grid.cell import Cell
    from repfl.bench.run.task import Outcome

__all__ = [
    "GateCell",
    "Move",
    "Regression",
    "accept",
    "check",
    "difference",
    "entries",
    "entry_of",
    "places",
    "read_reference",
]


@dataclass
class Regression:
    """What a check found."""

    reference: str
    cells: int = 0
    methods: int = 0
    moved: list[Move] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def entries(
    methods: Sequence[str], workers: int | None, plugins: tuple[str, ...] = ()
) -> dict[str, Entry]:
    """Today's entries of the gate's cells by key, computed in a folder of their own."""
    from repfl.bench.run import progress, runner
    from repfl.bench.run.task import Options

    chosen = places(methods)
    ends: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="repfl-check-") as folder:
        for stack in (1, cost.STACK):
            options = Options(
                folder,
                precision="fp64",
                stack=stack,
                checkpoint_every=1e9,
                norms=True,
                plugins=plugins,
            )
            cells = [planned for place, planned in chosen if stack_of(place) == stack]
            found = runner.run(cells, options, None, workers, progress.make())
            if found.signal:
                raise UserError("stopped by a signal; nothing was compared", found.exit_code)
            ends |= {outcome.id: outcome for outcome in found.outcomes}
        store = Store(folder)
        return {place.key: _entry(planned.cell, store, ends) for place, planned in chosen}


def stack_of(place: GateCell) -> int:
    """Return how many clients of a cell are computed at once: both ways of training are checked."""
    return 1 if place.seed == SEEDS[0] else cost.STACK


def _entry(cell: Cell, store: Store, ends: Mapping[str, Outcome]) -> Entry:
    """The entry of a cell; one that could not be computed has none of its numbers."""
    record = store.get(cell.id)
    if record is not None:
        return entry_of(record, store)
    end = ends.get(cell.id)
    return {
        "version": cell.version,
        "status": end.status if end else "missing",
        "reason": end.reason if end else "",
    }


def accept(
    path: Path | None,
    reason: str,
    methods: Sequence[str],
    workers: int | None,
    plugins: tuple[str, ...] = (),
) -> Path:
    """Take today's numbers as the reference, and keep why."""
    path = path or FILE
    if not reason.strip():
        raise UserError('--accept needs --reason "why the new numbers are right"')
    places(methods)
    provenance.must_last(path)
    old: dict[str, Any] = (
        read_reference(path) if path.exists() else {"schema": SCHEMA, "cells": {}, "history": []}
    )
    now = entries(methods, workers, plugins)
    failed = [
        f"{key} {entry['status']}: {entry['reason']}"
        for key, entry in now.items()
        if entry["status"] != "done"
    ]
    if failed:
        first = (
            f"{len(failed)} cells of the gate failed, so the reference stays as it is; the first:"
            f" {failed[0]}"
        )
        raise UserError(first, FAILED)
    moved = [
        key
        for key, entry in now.items()
        if key in old["cells"] and first_move(old["cells"][key], entry)
    ]
    cells = {
        key: cell for key, cell in old["cells"].items() if methods and method_of(key) not in methods
    }
    for key, entry in now.items():
        cells[key] = {name: value for name, value in entry.items() if name != "reason"}
    note = {
        "reason": reason.strip(),
        "platform": provenance.platform_of("cpu", "fp64")["fingerprint"],
        "cells": len(now),
        "moved": moved,
        "engine": core.ENGINE,
        **provenance.commit(),
    }
    write_reference(path, cells, [*old["history"], note])
    return path


def check(
    path: Path | None, methods: Sequence[str], workers: int | None, plugins: tuple[str, ...] = ()
) -> Regression:
    """Compute the gate's cells and compare them with the reference."""
    places(methods)
    reference, now = read_reference(path), entries(methods, workers, plugins)
    then = {
        key: cell
        for key, cell in reference["cells"].items()
        if not methods or method_of(key) in methods
    }
    found = Regression(str(path or FILE), len(now), len({method_of(key) for key in now}))
    found.moved = difference(then, now)
    if found.moved and reference["history"]:
        last = reference["history"][-1]
        found.notes.append(f"reference of commit {str(last.get('commit'))[:12]}: {last['reason']}")
    if unraised := _unraised(found.moved, reference["history"]):
        found.notes.append(
            f"{', '.join(unraised)}: numbers moved under the same version; raise the method's"
            " version or ENGINE (algorithms/core/__init__.py), or undo the change"
        )
    return found


def _unraised(moves: Sequence[Move], history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the methods that moved although neither their version nor ENGINE was raised."""
    if history and history[-1].get("engine", 1) != core.ENGINE:
        return []
    moved = [move for move in moves if move.version_then == move.version_now]
    return sorted({parse_spec(move.spec)[0] for move in moved})
