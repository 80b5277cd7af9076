"""The accuracy gate: small cells of every method in float64, compared with a committed reference.

Seeds are compared one by one: counts of correct predictions, sizes of states after every round,
metrics, bytes. `gate_compare` says what rounding may change.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.algorithms import core
from repfl.bench.check.gate_cells import SEEDS, cells, method_of, parse_key
from repfl.bench.check.gate_compare import GateEntry, Move, difference, first_move
from repfl.bench.errors import FAILED, UserError, one_line
from repfl.bench.grid.methods import parse_spec
from repfl.bench.run import cost
from repfl.bench.store import provenance
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store, replace_file, writing

if TYPE_CHECKING:
    from repfl.bench.grid.cell import Cell
    from repfl.bench.run.task import Outcome

REFERENCE = Path(__file__).with_name("reference.json")
SCHEMA = 3
DIGITS = 12
"""Significant digits that are stored of a float; both sides of a comparison are rounded to them."""


@dataclass
class Regression:
    """The result of a check."""

    reference: str
    cells: int = 0
    methods: int = 0
    moved: list[Move] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(
    path: Path | None, methods: Sequence[str], workers: int | None, plugins: tuple[str, ...] = ()
) -> Regression:
    """Compute the gate's cells and compare them with the reference."""
    cells(methods)  # refuses unknown methods before anything is read
    reference, now = read_reference(path), entries(methods, workers, plugins)
    then = {
        key: cell
        for key, cell in reference["cells"].items()
        if not methods or method_of(key) in methods
    }
    result = Regression(str(path or REFERENCE), len(now), len({method_of(key) for key in now}))
    result.moved = difference(then, now)
    if result.moved and reference["history"]:
        latest = reference["history"][-1]
        result.notes.append(
            f"reference of commit {str(latest.get('commit'))[:12]}: {latest['reason']}"
        )
    if unraised := _unraised(result.moved, reference["history"]):
        result.notes.append(
            f"{', '.join(unraised)}: numbers moved under the same version; raise the method's"
            " version or ENGINE (algorithms/core/__init__.py), or undo the change"
        )
    return result


def _unraised(moves: Sequence[Move], history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the methods whose numbers moved while neither their version nor ENGINE was raised."""
    if history and history[-1].get("engine", 1) != core.ENGINE:
        return []
    moved = [move for move in moves if move.version_then == move.version_now]
    return sorted({parse_spec(move.spec)[0] for move in moved})


def accept(
    path: Path | None,
    reason: str,
    methods: Sequence[str],
    workers: int | None,
    plugins: tuple[str, ...] = (),
) -> Path:
    """Store today's numbers as the reference, with the reason."""
    path = path or REFERENCE
    if not reason.strip():
        raise UserError('--accept needs --reason "why the new numbers are right"')
    cells(methods)
    provenance.refuse_installed_copy(path)
    previous: dict[str, Any] = {"cells": {}, "history": []}
    if path.exists():
        previous = read_reference(path)
    now = entries(methods, workers, plugins)
    _refuse_failed(now)
    then = previous["cells"]
    stored = {key: then[key] for key in then if methods and method_of(key) not in methods}
    for key, entry in now.items():
        stored[key] = {name: value for name, value in entry.items() if name != "reason"}
    note = {
        "reason": reason.strip(),
        "platform": provenance.platform_of("cpu", "fp64")["fingerprint"],
        "cells": len(now),
        "moved": [key for key in now if key in then and first_move(then[key], now[key])],
        "engine": core.ENGINE,
        **provenance.commit(),
    }
    _write_reference(path, stored, [*previous["history"], note])
    return path


def _refuse_failed(now: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse to accept numbers if a cell has none."""
    failed = [
        f"{key} {entry['status']}: {entry['reason']}"
        for key, entry in now.items()
        if entry["status"] != "done"
    ]
    if failed:
        raise UserError(
            f"{len(failed)} cells of the gate failed, so the reference stays as it is; the first:"
            f" {failed[0]}",
            FAILED,
        )


# -- the reference ---------------------------------------------------------------------------------


def read_reference(path: Path | None) -> dict[str, Any]:
    """Read a reference file."""
    path = path or REFERENCE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["schema"] != SCHEMA:
            raise ValueError(f"schema {values['schema']}, expected {SCHEMA}")
        if not isinstance(values["cells"], dict) or not isinstance(values["history"], list):
            raise ValueError("cells and history are of the wrong kind")
    except FileNotFoundError:
        raise UserError(
            f"reference {path}: there is none; make it with `repfl check --accept --reason TEXT`"
        ) from None
    except OSError as error:
        raise UserError(f"reference {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"reference {path}: is not a reference file: {one_line(error)}") from None
    return dict(values)


def _write_reference(
    path: Path, entries: Mapping[str, GateEntry], history: list[Mapping[str, Any]]
) -> None:
    """Write the whole file or nothing; one line per cell, so that diffs show which moved."""
    lines = [
        f"{json.dumps(key)}:{json.dumps(entries[key], sort_keys=True, separators=(',', ':'))}"
        for key in sorted(entries)
    ]
    body = ",\n".join(lines)
    history_text = json.dumps(history, indent=1, sort_keys=True)
    text = f'{{"schema":{SCHEMA},\n"history":{history_text},\n"cells":{{\n{body}\n}}}}\n'
    with writing(path.parent, "folder", ""):
        replace_file(path, text.encode())


# -- entries ---------------------------------------------------------------------------------------


def entries(
    methods: Sequence[str], workers: int | None, plugins: tuple[str, ...] = ()
) -> dict[str, GateEntry]:
    """Compute the gate's cells in a temporary folder, and return their entries by key."""
    from repfl.bench.run import progress, runner
    from repfl.bench.run.task import Options

    gate_cells = cells(methods)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="repfl-check-") as folder:
        # both ways of training are checked: one client at a time for the first seed
        for stack in (1, cost.STACK):
            options = Options(
                folder,
                precision="fp64",
                stack=stack,
                checkpoint_every=1e9,
                norms=True,
                plugins=plugins,
            )
            first_seed = {key for key in gate_cells if parse_key(key)[2] == SEEDS[0]}
            items = [gate_cells[key] for key in gate_cells if (key in first_seed) == (stack == 1)]
            ending = runner.run(items, options, None, workers, progress.Progress())
            if ending.signal:
                raise UserError("stopped by a signal; nothing was compared", ending.exit_code)
            outcomes |= {outcome.id: outcome for outcome in ending.outcomes}
        store = Store(folder)
        return {key: _entry(items.cell, store, outcomes) for key, items in gate_cells.items()}


def _entry(cell: Cell, store: Store, outcomes: Mapping[str, Outcome]) -> GateEntry:
    """Return the entry of a cell; without numbers if it could not be computed."""
    record = store.get(cell.id)
    if record is not None:
        return entry_of(record, store)
    outcome = outcomes.get(cell.id)
    status, reason = (outcome.status, outcome.reason) if outcome else ("missing", "")
    return {"version": cell.version, "status": status, "reason": reason}


def entry_of(record: Record, store: Store) -> GateEntry:
    """Return the entry of a record, from the files as they were stored."""
    entry: dict[str, Any] = {
        "version": record.cell["version"],
        "status": record.status,
        "reason": record.reason,
    }
    if record.status != "done":
        return entry
    frame = store.frame(record, "clients.parquet")
    columns = ["round", "point", "client", "correct", "total"]
    clients = [] if frame is None else sorted(frame[columns].itertuples(index=False, name=None))
    arrays = store.arrays(record).items()
    return entry | {
        "partition": str(record.origin.partition)[:16],
        "metrics": _rounded(record.json["metrics"]),
        "totals": _totals(clients),
        "counts": _counts(clients),
        "norms": _rounded(record.origin.norms),
        "arrays": _rounded({n: _size(array) for n, array in arrays if array.dtype.kind in "biuf"}),
    }


def _counts(rows: Sequence[tuple[Any, ...]]) -> dict[str, dict[str, str]]:
    """Return correct predictions by scoring point and round, as `client:correct` for all scored."""
    counts: dict[str, dict[str, str]] = {}
    for round_, point, client, correct, _ in rows:
        earlier = counts.setdefault(point, {}).get(str(round_), "")
        counts[point][str(round_)] = f"{earlier} {client}:{correct}".lstrip()
    return counts


def _totals(rows: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """Return samples scored by scoring point, as `client:samples`; several if rounds differ."""
    totals: dict[str, set[tuple[int, int]]] = {}
    for _, point, client, _, total in rows:
        totals.setdefault(point, set()).add((client, total))
    return {
        point: " ".join(f"{client}:{total}" for client, total in sorted(pairs))
        for point, pairs in totals.items()
    }


def _size(array: Any) -> float:
    """Return the root mean square."""
    return sqrt(float((array.astype("float64") ** 2).mean())) if array.size else 0.0


def _rounded(value: Any) -> Any:
    """Round every float to `DIGITS`; whole ones become integers, as in JSON."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, float) and isfinite(value):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() else short
    return str(value) if isinstance(value, float) else value
