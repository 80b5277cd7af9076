"""Measured values that travel with the code: what `repfl collect` writes under paper_tables/<paper>/measured, and reports fall back on.

`<scale>.csv` has one line per finished cell; `<scale>-curves.csv` has the accuracy curves of the cells that figures need.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cells.grid import ROOT
from bench.cells.plan import Planned, unique
from bench.errors import UserError, one_line
from bench.records.store import Store, stored_result, writing

if TYPE_CHECKING:
    import pandas as pd

CELLS = ("id", "method", "version", "column", "seed", "status", "reason", "value", "metrics", "commit", "device", "torch", "finished")
CURVES = ("id", "round", "name", "value")


@dataclass
class Measured:
    """The measured values of one paper, by cell id."""

    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    curves: dict[str, list[tuple[int, str, float]]] = field(default_factory=dict)

    def frame(self, cell: str) -> pd.DataFrame | None:
        """A cell's curves, if they were kept."""
        import pandas as pd

        rows = self.curves.get(cell)
        return None if rows is None else pd.DataFrame(rows, columns=["round", "name", "value"])


def folder_of(paper: str, root: Path | None = None) -> Path:
    return (root or ROOT) / paper.replace("-", "_") / "measured"


def read(paper: str, scale: str, root: Path | None = None) -> Measured:
    """The measured values of a paper at a scale; nothing where none are kept."""
    folder, found = folder_of(paper, root), Measured()
    for line, row in _rows(folder / f"{scale}.csv", CELLS):
        try:
            row["metrics"] = json.loads(row["metrics"])
        except ValueError as error:
            raise UserError(f"{folder / f'{scale}.csv'}:{line}: metrics are not JSON: {one_line(error)}") from None
        found.cells[row["id"]] = row
    for line, row in _rows(folder / f"{scale}-curves.csv", CURVES):
        try:
            found.curves.setdefault(row["id"], []).append((int(row["round"]), row["name"], float(row["value"])))
        except ValueError as error:
            raise UserError(f"{folder / f'{scale}-curves.csv'}:{line}: {one_line(error)}") from None
    return found


def _rows(path: Path, fields: Sequence[str]) -> Iterable[tuple[int, dict[str, Any]]]:
    """Lines of a csv file with their numbers; a file that is not ours is refused."""
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != tuple(fields):
            raise UserError(f"{path}:1: columns are {', '.join(reader.fieldnames or ())}; expected {', '.join(fields)}")
        for row in reader:
            if None in row.values() or None in row:
                raise UserError(f"{path}:{reader.line_num}: has not {len(fields)} fields")
            yield reader.line_num, dict(row)


def collect(planned: Sequence[Planned], store: Store, root: Path | None = None) -> list[tuple[Path, int]]:
    """Write the finished cells of every paper; cells measured earlier stay unless they are finished here too."""
    written = []
    for paper, scale in sorted({(item.paper, item.scale) for item in planned}):
        items = unique(item for item in planned if item.paper == paper)
        known = read(paper, scale, root)
        figures = {item.cell.id for item in planned if item.paper == paper and item.kind == "figure"}
        for item in items:
            _add(known, item, store, item.cell.id in figures)
        folder = folder_of(paper, root)
        if known.cells:
            written.append((folder / f"{scale}.csv", len(known.cells)))
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                _write(folder / f"{scale}.csv", CELLS, (known.cells[cell] for cell in sorted(known.cells)))
                curves = ((cell, *row) for cell in sorted(known.curves) for row in sorted(known.curves[cell]))
                _write(folder / f"{scale}-curves.csv", CURVES, (dict(zip(CURVES, row, strict=True)) for row in curves))
    return written


def _add(known: Measured, item: Planned, store: Store, with_curves: bool) -> None:
    """One finished cell, as the csv files keep it."""
    record = stored_result(store, item.cell.id)
    if record is None or record.status not in ("done", "diverged"):
        return
    origin = record.provenance
    known.cells[record.id] = {
        "id": record.id,
        "method": item.cell.method,
        "version": item.cell.version,
        "column": item.column,
        "seed": item.cell.seed,
        "status": record.status,
        "reason": record.reason,
        "value": record.metrics.get("value", ""),
        "metrics": record.metrics,
        "commit": origin.get("commit") or "",
        "device": origin["platform"]["device"],
        "torch": origin["platform"]["torch"],
        "finished": origin["finished"],
    }
    frame = store.frame(record, "rounds.parquet") if with_curves else None
    if frame is not None:
        kept = frame[frame["name"].str.endswith(("/mean", "/pooled"))]
        known.curves[record.id] = [(int(r), str(n), round(float(v), 6)) for r, n, v in kept.itertuples(index=False)]


def _write(path: Path, fields: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """A csv file, replaced as a whole; no file for no rows."""
    rows = list(rows)
    if not rows:
        return
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: json.dumps(v, sort_keys=True) if isinstance(v, dict) else v for k, v in row.items()})
    partial.replace(path)
