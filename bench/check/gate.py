"""The accuracy gate: small cells of every method in float64, against a committed reference.

Seeds are compared one by one: counts of correct predictions, sizes of states after every round,
metrics, bytes. See `gate_compare` for what rounding may change.
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
from repfl.bench.check.gate_cells import SEEDS, cells, method_of, place_of
from repfl.bench.check.gate_compare import GateEntry, Move, difference, first_move
from repfl.bench.errors import FAILED, UserError, one_line
from repfl.bench.grid.methods import parse_spec
from repfl.bench.run import cost
from repfl.bench.store import provenance
from repfl.bench.store.store import Record, Store, replace_file, writing

if TYPE_CHECKING:
    from repfl.bench.grid.cell import Cell
    from repfl.bench.run.task import Outcome

REFERENCE = Path(__file__).with_name("reference.json")
SCHEMA = 3
DIGITS = 12
"""Significant digits that are kept of a float; both sides of a comparison are rounded to them."""


@dataclass
class Regression:
    """What a check found."""

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
    found = Regression(str(path or REFERENCE), len(now), len({method_of(key) for key in now}))
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


def accept(
    path: Path | None,
    reason: str,
    methods: Sequence[str],
    workers: int | None,
    plugins: tuple[str, ...] = (),
) -> Path:
    """Take today's numbers as the reference, and keep why."""
    path = path or REFERENCE
    if not reason.strip():
        raise UserError('--accept needs --reason "why the new numbers are right"')
    cells(methods)
    provenance.must_last(path)
    old: dict[str, Any] = {"cells": {}, "history": []}
    if path.exists():
        old = read_reference(path)
    now = entries(methods, workers, plugins)
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
    then = old["cells"]
    kept = {key: then[key] for key in then if methods and method_of(key) not in methods}
    for key, entry in now.items():
        kept[key] = {name: value for name, value in entry.items() if name != "reason"}
    note = {
        "reason": reason.strip(),
        "platform": provenance.platform_of("cpu", "fp64")["fingerprint"],
        "cells": len(now),
        "moved": [key for key in now if key in then and first_move(then[key], now[key])],
        "engine": core.ENGINE,
        **provenance.commit(),
    }
    _write_reference(path, kept, [*old["history"], note])
    return path


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
    """Write all or nothing; one line per cell, so that a change shows which cells it moved."""
    lines = [
        f"{json.dumps(key)}:{json.dumps(entries[key], sort_keys=True, separators=(',', ':'))}"
        for key in sorted(entries)
    ]
    body = ",\n".join(lines)
    told = json.dumps(history, indent=1, sort_keys=True)
    text = f'{{"schema":{SCHEMA},\n"history":{told},\n"cells":{{\n{body}\n}}}}\n'
    with writing(path.parent, "folder", ""):
        replace_file(path, text.encode())


# -- entries ---------------------------------------------------------------------------------------


def entries(
    methods: Sequence[str], workers: int | None, plugins: tuple[str, ...] = ()
) -> dict[str, GateEntry]:
    """Compute the gate's cells in a folder of their own, and return their entries by key."""
    from repfl.bench.run import progress, runner
    from repfl.bench.run.task import Options

    chosen = cells(methods)
    ends: dict[str, Outcome] = {}
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
            alone = stack == 1
            mine = [it for key, it in chosen.items() if (place_of(key)[2] == SEEDS[0]) == alone]
            found = runner.run(mine, options, None, workers, progress.Progress())
            if found.signal:
                raise UserError("stopped by a signal; nothing was compared", found.exit_code)
            ends |= {outcome.id: outcome for outcome in found.outcomes}
        store = Store(folder)
        return {key: _entry(planned.cell, store, ends) for key, planned in chosen.items()}


def _entry(cell: Cell, store: Store, ends: Mapping[str, Outcome]) -> GateEntry:
    """Return the entry of a cell; one that could not be computed has none of its numbers."""
    record = store.get(cell.id)
    if record is not None:
        return entry_of(record, store)
    end = ends.get(cell.id)
    status, reason = (end.status, end.reason) if end else ("missing", "")
    return {"version": cell.version, "status": status, "reason": reason}


def entry_of(record: Record, store: Store) -> GateEntry:
    """Return the entry of a record, from the files as they were stored."""
    kept: dict[str, Any] = {
        "version": record.cell["version"],
        "status": record.status,
        "reason": record.reason,
    }
    if record.status != "done":
        return kept
    frame = store.frame(record, "clients.parquet")
    columns = ["round", "point", "client", "correct", "total"]
    clients = [] if frame is None else sorted(frame[columns].itertuples(index=False, name=None))
    arrays = store.arrays(record).items()
    return kept | {
        "partition": record.provenance["partition"][:16],
        "metrics": _rounded(record.metrics),
        "totals": _totals(clients),
        "counts": _counts(clients),
        "norms": _rounded(record.provenance["norms"]),
        "arrays": _rounded({n: _size(array) for n, array in arrays if array.dtype.kind in "biuf"}),
    }


def _counts(rows: Sequence[tuple[Any, ...]]) -> dict[str, dict[str, str]]:
    """Return correct predictions by scoring point and round, as `client:correct` for all scored."""
    found: dict[str, dict[str, str]] = {}
    for round_, point, client, correct, _ in rows:
        earlier = found.setdefault(point, {}).get(str(round_), "")
        found[point][str(round_)] = f"{earlier} {client}:{correct}".lstrip()
    return found


def _totals(rows: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """Return samples scored by scoring point, as `client:samples`; several if rounds differ."""
    found: dict[str, set[tuple[int, int]]] = {}
    for _, point, client, _, total in rows:
        found.setdefault(point, set()).add((client, total))
    return {
        point: " ".join(f"{client}:{total}" for client, total in sorted(pairs))
        for point, pairs in found.items()
    }


def _size(array: Any) -> float:
    """Return the root mean square."""
    return sqrt(float((array.astype("float64") ** 2).mean())) if array.size else 0.0


def _rounded(value: Any) -> Any:
    """Round every float to the digits that are kept; whole ones become integers, as in JSON."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, float) and isfinite(value):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() else short
    return str(value) if isinstance(value, float) else value
