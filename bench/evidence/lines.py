"""One measured line: what a cell came to when somebody computed it on some platform.

A line is known by its cell, its platform and its contributor, so that independent runs of one cell
stand side by side. It ends with a checksum over everything that it says, its origin, its curves and
its diagnostics included.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from repfl.bench.evidence.packing import (
    Counts,
    Curve,
    Packed,
    by_name,
    pack,
    pack_counts,
    pack_rounds,
    unpack_counts,
)
from repfl.bench.run.metrics import judged
from repfl.bench.store import versions
from repfl.bench.store.store import Record, Store
from repfl.bench.store.versions import Standing

AXES = ("method", "version", "hp", "column", "dataset", "model", "clients", "rounds", "seed")
"""For readers; what a cell is stands in the grid, and its id says so."""
LATER = ("work",)
"""Provenance that runs of early days have not, nor their files."""
OUTCOME = ("partition", "samples", "seconds", "peak_memory", "finished", "digests", "work")
"""Provenance that every run has of its own."""
ORIGIN = (
    "commit", "dirty", "versions", "libraries", "platform",
    "device", "precision", "chunk", "threads", "data", "contributor",
)  # fmt: skip
"""Provenance that many runs share."""
CELLS = (
    "line", "id", *AXES, "status", "reason", "value", "metrics", "counts", "arrays",
    "origin", *OUTCOME, "checksum",
)  # fmt: skip
ORIGINS = ("origin", *ORIGIN)
CURVES = ("line", "name", "rounds", "values")
JSON = {
    "hp",
    "metrics",
    "arrays",
    "dirty",
    "versions",
    "libraries",
    "platform",
    "chunk",
    "threads",
    "data",
}
JSON |= {"samples", "seconds", "peak_memory", "digests", "work"}
"""Fields that are written as JSON; the others are text."""
KEY = 16
"""How many digits of a hash name a line."""


@dataclass(frozen=True)
class Line:
    """A finished cell, by one contributor on one platform."""

    record: Record
    """Without files, and without its cell until the grid has told it."""
    axes: Mapping[str, Any]
    counted: str = ""
    """The counts of the reported round, packed; lines of early days have none."""
    drawn: Mapping[str, Packed] = field(default_factory=dict)
    """The curves, packed: most who read a line ask for none."""
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Reduced diagnostics: the name of the reduction, and the SHA-256 of its file."""

    @property
    def cell(self) -> str:
        return self.record.id

    @property
    def contributor(self) -> str:
        return str(self.record.provenance.get("contributor"))

    @property
    def platform(self) -> str:
        return str((self.record.provenance.get("platform") or {}).get("fingerprint"))

    @property
    def value(self) -> float | None:
        return self.record.metrics.get("value")

    @property
    def digests(self) -> Mapping[str, str]:
        return self.record.provenance.get("digests") or {}

    @cached_property
    def counts(self) -> Counts | None:
        return unpack_counts(self.counted)

    @cached_property
    def curves(self) -> Mapping[str, Curve]:
        return {name: packed.curve for name, packed in self.drawn.items()}

    @cached_property
    def standing(self) -> Standing:
        """Whether it is of today's versions, as far as its cell is known."""
        return versions.of_line(self.record.provenance, self.known_cell)

    @property
    def known_cell(self) -> Mapping[str, Any]:
        """Its cell, or if no grid plans it any more what the line says of it."""
        recipe = {name: self.axes[name] for name in ("dataset", "model")}
        return self.record.cell or {"method": str(self.axes["method"]), "recipe": recipe}

    @cached_property
    def key(self) -> str:
        return _hash([self.cell, self.platform, self.contributor])[:KEY]

    @cached_property
    def origin(self) -> dict[str, str]:
        return {name: written(name, self.record.provenance.get(name)) for name in ORIGIN}

    @cached_property
    def origin_key(self) -> str:
        return origin_key(self.origin)

    @cached_property
    def checksum(self) -> str:
        return checksum(self.row, self.origin, self.curve_rows)

    @cached_property
    def row(self) -> dict[str, str]:
        """The texts of the line, without its checksum."""
        record = self.record
        values = {
            "line": self.key,
            "id": self.cell,
            **{name: self.axes[name] for name in AXES},
            "status": record.status,
            "reason": record.reason,
            "value": self.value,
            "metrics": record.metrics,
            "counts": self.counted,
            "arrays": self.arrays,
            "origin": self.origin_key,
            **{name: record.provenance.get(name) for name in OUTCOME},
        }
        return {name: written(name, value) for name, value in values.items()}

    @cached_property
    def curve_rows(self) -> list[dict[str, str]]:
        """The lines of the curves' file."""
        return [
            {"line": self.key, "name": name, **packed._asdict()}
            for name, packed in self.drawn.items()
        ]


def line_of(
    record: Record, axes: Mapping[str, Any], store: Store, read: Collection[str] | None = None
) -> Line:
    """The line of a stored record: with all its curves, or with those that were read and the one
    its value is from.
    """
    if record.status != "done":
        return Line(record, axes)
    curve = "/".join(judged(record.cell["recipe"]["evaluation"]))
    curves = by_name(store.frame(record, "rounds.parquet"))
    # in the order of the record, whatever was asked for first, so that one record always gives the
    # same line
    named = curves if read is None else {n: c for n, c in curves.items() if n in read or n == curve}
    return Line(record, axes, pack_counts(counts_of(record, store)), packed(named))


def packed(curves: Mapping[str, Curve]) -> dict[str, Packed]:
    """Curves as their file has them."""
    return {
        name: Packed(pack_rounds(curve.rounds), pack(curve.values))
        for name, curve in curves.items()
    }


def counts_of(record: Record, store: Store) -> Counts | None:
    """The counts of the reported round of a finished cell."""
    frame, round_ = store.frame(record, "clients.parquet"), record.metrics["round"]
    if frame is None or round_ is None:
        return None
    point, _ = judged(record.cell["recipe"]["evaluation"])
    rows = frame[(frame["round"] == round_) & (frame["point"] == point)].sort_values("client")
    return Counts(*(rows[name].to_numpy(dtype=np.int64) for name in ("client", "correct", "total")))


def checksum(
    row: Mapping[str, str], origin: Mapping[str, str], curves: Sequence[Mapping[str, str]]
) -> str:
    """Of the texts of the files, since a file does not tell 1 from "1"."""
    said = {
        name: row[name]
        for name in CELLS
        if name not in ("origin", "checksum") and (row[name] or name not in LATER)
    }
    return _hash([said, _said(origin), curves])[:KEY]


def origin_key(origin: Mapping[str, str]) -> str:
    """The name of an origin: the texts that it consists of, hashed."""
    return _hash(_said(origin))[:12]


def _said(origin: Mapping[str, str]) -> dict[str, str]:
    return {name: origin[name] for name in ORIGIN if origin[name] or name not in LATER}


_as_json = json.JSONEncoder(sort_keys=True).encode
"""`json.dumps` would make an encoder for every field."""


def written(name: str, value: Any) -> str:
    """A field as its file has it."""
    if name in JSON and (value is not None or name not in LATER):
        return _as_json(value)
    return "" if value is None else str(value)


def _hash(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
