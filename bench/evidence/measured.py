"""Measured values that travel with the code: what `repfl collect` writes under paper_tables/<paper>/measured, and reports fall back on.

<scale>.csv            one line per finished cell: its axes, its metrics, what came out, and its origin
<scale>-origins.csv    what cells were made with: commit, sources, libraries, platform, data; lines of cells refer to these
<scale>-curves.csv     one line per curve that a value was taken from, or that an artefact reads
<scale>-arrays/        diagnostics, reduced to what an artefact shows of them: <id>-<reduction>.npz
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.cells.grid import ROOT, SCALES, files
from bench.cells.plan import Planned
from bench.errors import one_line
from bench.records.store import Record
from paper_tables.core.evidence import Arrays, wanted

AXES = ("method", "version", "hp", "column", "dataset", "model", "clients", "rounds", "seed")
"""For readers; what a cell is stands in the grid, and its id says so."""
OUTCOME = ("partition", "samples", "seconds", "peak_memory", "finished", "digests")
"""Provenance that every run has of its own."""
CELLS = ("id", *AXES, "status", "reason", "value", "metrics", "origin", *OUTCOME)
ORIGIN = ("commit", "dirty", "sources", "libraries", "platform", "device", "precision", "chunk", "threads", "data")
"""Provenance that many runs share."""
ORIGINS = ("origin", *ORIGIN)
CURVES = ("id", "name", "rounds", "values")
JSON = frozenset({"hp", "metrics", "dirty", "sources", "libraries", "platform", "chunk", "threads", "data", "samples", "seconds"}) | {
    "peak_memory",
    "digests",
}
ARRAY_ID = 16
"""How much of a cell's id names its arrays."""


class Curve(NamedTuple):
    """Values by round."""

    rounds: np.ndarray
    values: np.ndarray


@dataclass
class Measured:
    """The measured values of one paper at one scale, by cell id."""

    folder: Path = Path()
    scale: str = ""
    records: dict[str, Record] = field(default_factory=dict)
    """Without their cells, which the grid knows, and without files."""
    axes: dict[str, dict[str, Any]] = field(default_factory=dict)
    known_curves: dict[str, dict[str, Curve]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def curves(self, cell: str, names: Sequence[str]) -> dict[str, Curve]:
        """The named curves of a cell, as far as they were kept."""
        return {name: curve for name, curve in self.known_curves.get(cell, {}).items() if wanted(name, names)}

    def arrays(self, cell: str, reduction: str) -> Arrays:
        """Reduced diagnostics of a cell; nothing where they were not kept."""
        path = self.place_of(cell, reduction)
        if not path.is_file():
            return {}
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def forget(self, cell: str) -> None:
        """Drop a cell's line and curves, and with the next writing its diagnostics."""
        for held in (self.records, self.axes, self.known_curves):
            held.pop(cell, None)

    def place_of(self, cell: str, reduction: str) -> Path:
        return self.folder / f"{self.scale}-arrays" / f"{cell[:ARRAY_ID]}-{reduction}.npz"


def folder_of(paper: str, root: Path | None = None) -> Path:
    return (root or ROOT) / paper.replace("-", "_") / "measured"


def read(paper: str, scale: str, root: Path | None = None) -> Measured:
    """The measured values of a paper at a scale; nothing where none are kept. A bad line costs itself, and a line in `problems`."""
    found = Measured(folder_of(paper, root), scale)
    origins: dict[str, dict[str, Any]] = {}
    for row in _rows(found, f"{scale}-origins.csv", ORIGINS):
        origins[row.pop("origin")] = row
    for row in _rows(found, f"{scale}.csv", CELLS):
        if row["origin"] not in origins:
            found.problems.append(f"{found.folder / f'{scale}.csv'}: cell {row['id'][:12]} has origin {row['origin']}, which is not listed")
            continue
        made = {name: row[name] for name in OUTCOME} | origins[row["origin"]]
        found.records[row["id"]] = Record(row["id"], {}, row["status"], row["reason"], row["metrics"], made)
        found.axes[row["id"]] = {name: row[name] for name in AXES}
    for row in _rows(found, f"{scale}-curves.csv", CURVES):
        found.known_curves.setdefault(row["id"], {})[row["name"]] = Curve(row["rounds"], row["values"])
    return found


def ids(root: Path | None = None) -> Iterator[tuple[str, str, str]]:
    """Paper, scale and cell of every measured value."""
    for paper in files(root):
        for scale in SCALES:
            yield from ((paper, scale, cell) for cell in read(paper, scale, root).records)


def unmeasured(planned: Sequence[Planned], root: Path | None = None) -> list[Planned]:
    """The cells that nobody has collected yet, so that several people can share a grid."""
    places = {(item.paper, item.scale) for item in planned}
    known = {cell for paper, scale in places for cell in read(paper, scale, root).records}
    return [item for item in planned if item.cell.id not in known]


def _rows(found: Measured, name: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The good lines of a csv file, decoded."""
    path = found.folder / name
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != tuple(fields):
            found.problems.append(f"{path}:1: columns are {', '.join(reader.fieldnames or ())}; expected {', '.join(fields)}")
            return
        for row in reader:
            try:
                if None in row or None in row.values():
                    raise ValueError(f"has not {len(fields)} fields")
                yield {field: _decoded(field, text) for field, text in row.items()}
            except ValueError as error:
                found.problems.append(f"{path}:{reader.line_num}: {one_line(error)}")


def _decoded(name: str, text: str) -> Any:
    if name in JSON:
        return json.loads(text) if text else None
    return unpack_rounds(text) if name == "rounds" and ":" in text else unpack(text) if name == "values" else text


# -- curves as text ------------------------------------------------------------------------------------------------------------------------


def pack(values: np.ndarray) -> str:
    """Numbers in as many digits as bring them back, whole ones without a point; a number that repeats is written once, with its count."""
    runs = ((text, len(list(run))) for text, run in groupby(_plain(float(value)) for value in values))
    return " ".join(f"{text}*{count}" if count > 1 else text for text, count in runs)


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def unpack(text: str) -> np.ndarray:
    """The numbers of `pack`."""
    pairs = [token.partition("*") for token in text.split()]
    return np.repeat([float(value) for value, _, _ in pairs], [int(count or 1) for _, _, count in pairs])


def pack_rounds(rounds: np.ndarray) -> str:
    """Spans of evenly spaced rounds, first:last:step."""
    spans: list[list[int]] = []
    for each in map(int, rounds):
        last = spans[-1] if spans else []
        if len(last) == 1 or (last and each - last[-1] == last[1] - last[0]):
            last.append(each)
        else:
            spans.append([each])
    return " ".join(f"{span[0]}:{span[-1]}:{span[1] - span[0] if len(span) > 1 else 1}" for span in spans)


def unpack_rounds(text: str) -> np.ndarray:
    """The rounds of `pack_rounds`."""
    spans = [[int(number) for number in span.split(":")] for span in text.split()]
    return np.concatenate([np.arange(first, last + 1, step, dtype=np.int64) for first, last, step in spans])


# -- writing -------------------------------------------------------------------------------------------------------------------------------


def write(measured: Measured) -> Path:
    """All files but the arrays, each replaced as a whole, in an order of their own; the same values give the same bytes."""
    origins: dict[str, Mapping[str, Any]] = {}
    cells = [_line(measured, cell, origins) for cell in sorted(measured.records)]
    curves = (
        {"id": cell, "name": name, "rounds": pack_rounds(curve.rounds), "values": pack(curve.values)}
        for cell in sorted(measured.known_curves)
        for name, curve in measured.known_curves[cell].items()
    )
    measured.folder.mkdir(parents=True, exist_ok=True)
    path = measured.folder / f"{measured.scale}.csv"
    _write(path, CELLS, cells)
    _write(measured.folder / f"{measured.scale}-origins.csv", ORIGINS, ({"origin": key, **origins[key]} for key in sorted(origins)))
    _write(measured.folder / f"{measured.scale}-curves.csv", CURVES, curves)
    lines = {cell[:ARRAY_ID] for cell in measured.records}
    for arrays in measured.folder.glob(f"{measured.scale}-arrays/*.npz"):
        if arrays.name[:ARRAY_ID] not in lines:
            arrays.unlink()
    return path


def _line(measured: Measured, cell: str, origins: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One cell; its origin joins the others."""
    from hashlib import sha256

    record = measured.records[cell]
    shared = {name: record.provenance.get(name) for name in ORIGIN}
    key = sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12]
    origins[key] = shared
    own = {name: record.provenance.get(name) for name in OUTCOME}
    result = {"status": record.status, "reason": record.reason, "value": record.metrics.get("value"), "metrics": record.metrics}
    return {"id": cell, **measured.axes[cell], **result, "origin": key, **own}


def _write(path: Path, fields: Sequence[str], rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: json.dumps(value, sort_keys=True) if name in JSON else value for name, value in row.items()})
    partial.replace(path)
