"""Measured values that travel with the code: what `repfl collect` writes under
paper_tables/<paper>/measured, and reports fall back on.

<scale>.csv            one line per finished cell, platform and contributor: its axes, its metrics,
                       what came out
<scale>-origins.csv    what cells were made with: commit, versions, libraries, platform, data,
                       contributor
<scale>-curves.csv     one line per curve that a value was taken from, or that an artefact reads
<scale>-arrays/        diagnostics, reduced to what an artefact shows of them:
                       <cell>-<line>-<reduction>.npz
<scale>-reruns.csv     which lines a later run on their platform gave again, to the bit
index.csv              how many lines every <scale>.csv holds, and a checksum of their checksums
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from repfl.bench.errors import Corrupt, one_line
from repfl.bench.evidence.lines import (
    AXES,
    CELLS,
    CURVES,
    JSON,
    KEY,
    LATER,
    ORIGIN,
    ORIGINS,
    OUTCOME,
    Line,
    checksum,
    origin_key,
    written,
)
from repfl.bench.evidence.packing import Curve, Packed, check_counts, how_many, how_many_rounds
from repfl.bench.grid.grid import SCALES, files, folder
from repfl.bench.grid.plan import Planned
from repfl.bench.store import provenance, versions
from repfl.bench.store.digest import of_file
from repfl.bench.store.store import Record
from repfl.paper_tables.core.evidence import Arrays, wanted

INDEX = "index.csv"
INDEXED = ("file", "lines", "checksum")
RERUNS = ("line", "checksum", "commit", "versions", "contributor", "finished")


@dataclass(frozen=True)
class Rerun:
    """A later run on a line's platform, from which everything came out to the bit."""

    checksum: str
    """Of the line that came out again."""
    commit: str
    versions: Mapping[str, Any]
    contributor: str
    finished: str

    @classmethod
    def now(cls, line: Line) -> Rerun:
        """One that has just ended."""
        commit = str(provenance.commit()["commit"] or "")
        return cls(
            line.checksum,
            commit,
            versions.of_cell(line.known_cell),
            contributor(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )


@dataclass
class Measured:
    """The measured values of one paper at one scale."""

    folder: Path = Path()
    scale: str = ""
    cells: dict[str, dict[str, Line]] = field(default_factory=dict)
    """Cell id -> key -> line."""
    reruns: dict[str, Rerun] = field(default_factory=dict)
    """By the key of their line."""
    problems: list[str] = field(default_factory=list)
    """What was refused, one line each."""
    refused: set[str] = field(default_factory=set)
    """The keys of lines that do not hold."""

    @property
    def file(self) -> Path:
        return self.folder / f"{self.scale}.csv"

    @property
    def lines(self) -> list[Line]:
        return [line for lines in self.cells.values() for line in lines.values()]

    @property
    def records(self) -> dict[str, Record]:
        """What is shown of every cell."""
        return {cell: line.record for cell in self.cells if (line := self.line(cell)) is not None}

    def line(self, cell: str) -> Line | None:
        """The line that is shown of a cell: a current one before others, then the earliest."""
        lines = self.cells.get(cell, {}).values()
        return min(lines, key=_precedence, default=None)

    def add(self, line: Line) -> None:
        self.cells.setdefault(line.cell, {})[line.key] = line

    def forget(self, line: Line) -> None:
        """Drop a line, and with the next writing its diagnostics."""
        of_cell = self.cells[line.cell]
        del of_cell[line.key]
        if not of_cell:
            del self.cells[line.cell]

    def curves(self, cell: str, names: Sequence[str]) -> dict[str, Curve]:
        """The named curves of a cell, as far as they were kept."""
        line = self.line(cell)
        return (
            {}
            if line is None
            else {name: c for name, c in line.curves.items() if wanted(name, names)}
        )

    def arrays(self, cell: str, reduction: str) -> Arrays:
        """Reduced diagnostics of a cell; nothing where they were not kept."""
        line = self.line(cell)
        if line is None or reduction not in line.arrays:
            return {}
        with np.load(self.place_of(line, reduction), allow_pickle=False) as stored:
            return dict(stored)

    def place_of(self, line: Line, reduction: str) -> Path:
        return (
            self.folder / f"{self.scale}-arrays" / f"{line.cell[:KEY]}-{line.key}-{reduction}.npz"
        )


def contributor() -> str:
    """Whose run it is: REPFL_CONTRIBUTOR, else `ci` where CI runs, else the name that git knows."""
    name = os.environ.get("REPFL_CONTRIBUTOR") or (
        "ci" if os.environ.get("CI") else provenance.author()
    )
    plain = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")
    return plain[:40] or "anonymous"


def _precedence(line: Line) -> tuple[bool, str]:
    return not line.standing.current, str(line.record.provenance.get("finished"))


def folder_of(paper: str, root: Path | None = None) -> Path:
    return folder(paper, root) / "measured"


# -- reading ---------------------------------------------------------------------------------------


def read(paper: str, scale: str, root: Path | None = None) -> Measured:
    """The measured values of a paper at a scale; nothing where none are kept. A line that does not
    hold costs itself, and a line in `problems`; so does a file that cannot be read.
    """
    found = Measured(folder_of(paper, root), scale)
    try:
        _read(found)
    except Corrupt as error:
        found.problems.append(str(error))
    return found


def _read(found: Measured) -> None:
    """All files of a scale, and what each line says held against the others."""
    scale = found.scale
    origins = {row.texts["origin"]: row for row in _rows(found, f"{scale}-origins.csv", ORIGINS)}
    curves: dict[str, list[Row]] = {}
    for row in _rows(found, f"{scale}-curves.csv", CURVES):
        curves.setdefault(row["line"], []).append(row)
    rows = list(_rows(found, found.file.name, CELLS))
    for row in rows:
        if fault := _take(found, row, origins.get(row["origin"]), curves.get(row["line"], [])):
            found.problems.append(f"{found.file}: cell {row['id'][:12]}: {fault}")
            found.refused.add(row["line"])
    for key in sorted(curves.keys() - {row["line"] for row in rows}):
        found.problems.append(
            f"{found.folder / f'{scale}-curves.csv'}: curves of line {key}, which is not there"
        )
    checksums = {line.key: line.checksum for line in found.lines}
    for row in _rows(found, f"{scale}-reruns.csv", RERUNS):
        key = row.values.pop("line")
        if checksums.get(key) == row["checksum"]:
            found.reruns[key] = Rerun(**row.values)
    _hold_against_index(found, [str(row["checksum"]) for row in rows])


def _take(found: Measured, row: Row, origin: Row | None, curves: Sequence[Row]) -> str:
    """One line of the file among the others; what is wrong with it, if anything is."""
    if origin is None:
        return f"has origin {row['origin']}, which is not listed"
    made = {name: row[name] for name in OUTCOME} | {name: origin[name] for name in ORIGIN}
    record = Record(row["id"], {}, row["status"], row["reason"], row["metrics"], made)
    drawn = {each["name"]: Packed(each["rounds"], each["values"]) for each in curves}
    line = Line(record, {name: row[name] for name in AXES}, row["counts"], drawn, row["arrays"])
    said = None if line.value is None else str(line.value)
    sealed = checksum(row.texts, origin.texts, [each.texts for each in curves])
    if sealed != row["checksum"] or line.key != row["line"] or (said or "") != row["value"]:
        return "does not hold: it is not as it was collected"
    if origin_key(origin.texts) != row["origin"]:
        return f"does not hold: its origin {row['origin']} is not as it was collected"
    if line.key in found.cells.get(line.cell, {}):
        return f"stands twice for platform {line.platform} and contributor {line.contributor}"
    for reduction, expected in line.arrays.items():
        place = found.place_of(line, reduction)
        if not place.is_file() or of_file(place) != expected:
            return f"does not hold: {place.name} is not as it was collected"
    found.add(line)
    return ""


def _hold_against_index(found: Measured, checksums: Sequence[str]) -> None:
    """Is every line there that was written, and no other?"""
    index = {row["file"]: row for row in _rows(found, INDEX, INDEXED)}
    said = index.get(found.file.name)
    if said is None:
        if checksums:
            found.problems.append(f"{found.file}: is not listed in {INDEX}")
    elif said["lines"] != str(len(checksums)):
        found.problems.append(
            f"{found.file}: holds {len(checksums)} lines, and {INDEX} says {said['lines']}"
        )
    elif said["checksum"] != _joined(checksums):
        found.problems.append(f"{found.file}: its lines are not those that {INDEX} tells of")


def _joined(checksums: Iterable[str]) -> str:
    return sha256(" ".join(sorted(checksums)).encode()).hexdigest()[:KEY]


def ids(root: Path | None = None) -> Iterator[tuple[str, str, str]]:
    """Paper, scale and cell of every measured value."""
    for paper in files(root):
        for scale in SCALES:
            yield from ((paper, scale, cell) for cell in read(paper, scale, root).cells)


def unmeasured(planned: Sequence[Planned], root: Path | None = None) -> list[Planned]:
    """The cells that nobody has collected yet, so that several people can share a grid."""
    places = {(item.paper, item.scale) for item in planned}
    known = {cell for paper, scale in places for cell in read(paper, scale, root).cells}
    return [item for item in planned if item.cell.id not in known]


@dataclass(frozen=True)
class Row:
    """A line of a csv file: the texts of its fields, and what they stand for."""

    texts: dict[str, str]
    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def _rows(found: Measured, name: str, fields: Sequence[str]) -> Iterator[Row]:
    """The good lines of a csv file, decoded."""
    path = found.folder / name
    if not path.exists():
        return
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from _rows_of(csv.DictReader(file), path, fields, found.problems)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Corrupt(f"{path}: cannot be read: {one_line(error)}") from None


def _rows_of(
    reader: csv.DictReader[str], path: Path, fields: Sequence[str], problems: list[str]
) -> Iterator[Row]:
    """Those of an open file; a line that is none costs itself."""
    named = reader.fieldnames or ()
    early = dict.fromkeys((name for name in LATER if name not in named), "")
    if list(named) != [name for name in fields if name not in early]:
        raise Corrupt(f"{path}:1: columns are {', '.join(named)}; expected {', '.join(fields)}")
    for row in reader:
        try:
            if None in row or None in row.values():
                raise ValueError(f"has not {len(fields)} fields")
            row |= {field: text for field, text in early.items() if field in fields}
            yield Row(row, {field: _decoded(field, text) for field, text in row.items()})
        except ValueError as error:
            problems.append(f"{path}:{reader.line_num}: {one_line(error)}")


def _decoded(name: str, text: str) -> Any:
    if name in JSON:
        return json.loads(text) if text else None
    if name in PACKED and not (name == "rounds" and text.isdecimal()):  # how many a cell has
        PACKED[name](text)
    return text


PACKED = {"rounds": how_many_rounds, "values": how_many, "counts": check_counts}
"""Fields that are unpacked when they are asked for, and looked at before."""


# -- writing ---------------------------------------------------------------------------------------


def write(measured: Measured) -> Path:
    """All files but the arrays, each replaced as a whole, in an order of their own; the same values
    give the same bytes.
    """
    lines = sorted(measured.lines, key=lambda line: (line.cell, line.platform, line.contributor))
    origins = {line.origin_key: {"origin": line.origin_key, **line.origin} for line in lines}
    folder, scale = measured.folder, measured.scale
    folder.mkdir(parents=True, exist_ok=True)
    _write(measured.file, CELLS, ({**line.row, "checksum": line.checksum} for line in lines))
    _write(folder / f"{scale}-origins.csv", ORIGINS, (origins[key] for key in sorted(origins)))
    _write(
        folder / f"{scale}-curves.csv", CURVES, (row for line in lines for row in line.curve_rows)
    )
    again = {line.key: known for line in lines if (known := measured.reruns.get(line.key))}
    if again or (folder / f"{scale}-reruns.csv").exists():
        rows = ({"line": key, **_texts(vars(known))} for key, known in again.items())
        _write(folder / f"{scale}-reruns.csv", RERUNS, rows)
    _write_index(measured, [line.checksum for line in lines])
    kept = {measured.place_of(line, reduction) for line in lines for reduction in line.arrays}
    for arrays in folder.glob(f"{scale}-arrays/*.npz"):
        if arrays not in kept:
            arrays.unlink()
    return measured.file


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: written(name, value) for name, value in values.items()}


def _write_index(measured: Measured, checksums: Sequence[str]) -> None:
    index = {row["file"]: row.texts for row in _rows(measured, INDEX, INDEXED)}
    own = {"file": measured.file.name, "lines": str(len(checksums)), "checksum": _joined(checksums)}
    index[measured.file.name] = own
    _write(measured.folder / INDEX, INDEXED, (index[name] for name in sorted(index)))


def _write(path: Path, fields: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)
