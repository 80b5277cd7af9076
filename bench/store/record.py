"""A record: the result of one cell, as it is stored and as a committed run has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.grid.cell import canonical
from repfl.bench.grid.recipes import stored_recipe
from repfl.bench.store.contents import Contents, Metrics, Provenance, StoredCell, problem_of

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

SCHEMA = 1
STATUSES = ("done", "failed", "diverged", "skipped")
FINAL = ("done", "diverged", "skipped")
"""Statuses that computing again would not change; a failed cell is tried again."""
MODELS = "models.safetensors"
FILES = ("rounds.parquet", "clients.parquet", "arrays.npz", MODELS)
COLUMNS = {
    "rounds.parquet": {"round": "int32", "name": "string", "value": "double"},
    "clients.parquet": {
        "round": "int32",
        "point": "string",
        "client": "int32",
        "correct": "int32",
        "total": "int32",
    },
}
"""The columns of a record's tables, by Arrow's names of types."""
KINDS = {
    "schema": int,
    "id": str,
    "cell": dict,
    "status": str,
    "reason": str,
    "metrics": dict,
    "provenance": dict,
    "files": dict,
}
"""The fields of a record, as JSON has them."""
RERUN = "`repfl run` computes the cell again and replaces it"


@dataclass(frozen=True)
class Record:
    """The result of one cell."""

    id: str
    cell: Mapping[str, Any]
    status: str
    reason: str = ""
    metrics: Metrics | None = None
    """Its numbers; None if there are none."""
    provenance: Provenance | None = None
    """How it was computed; None if it was not."""
    files: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the record with these JSON values; raise ValueError with the first fault."""
        kinds: dict[str, type[Contents]] = {
            "cell": StoredCell,
            "metrics": Metrics,
            "provenance": Provenance,
        }
        parts: dict[str, Any] = {}
        for name, kind in kinds.items():
            try:
                parts[name] = kind.model_validate(values[name]) if values[name] else None
            except ValidationError as error:
                raise ValueError(problem_of(error, name)) from None
        return cls(**{**values, **parts, "cell": values["cell"]})

    @property
    def json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in KINDS}
        for name in ("metrics", "provenance"):
            values[name] = values[name].plain if values[name] is not None else {}
        return values

    @property
    def origin(self) -> Provenance:
        """How it was computed, of a record that was."""
        assert self.provenance is not None
        return self.provenance

    @property
    def value(self) -> float | None:
        """The reported accuracy, as a share of 1; None if there is none."""
        return None if self.metrics is None else self.metrics.value

    @property
    def round(self) -> int | None:
        """The round that it is of."""
        return None if self.metrics is None else self.metrics.round

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of its cell; raise `Corrupt` if it has none."""
        try:
            return stored_recipe(canonical(self.cell["recipe"]))
        except (KeyError, TypeError, ValueError):
            raise Corrupt(f"record {self.id[:12]}: its cell has no valid recipe; {RERUN}") from None


def encode(record: Record) -> bytes:
    """Return a record's bytes, always the same; the last field is the checksum of all others."""
    values = record.json
    values["checksum"] = checksum(values)
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def checksum(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record without its checksum."""
    return sha256(
        json.dumps({k: v for k, v in values.items() if k != "checksum"}, sort_keys=True).encode()
    ).hexdigest()


def decode(data: bytes, path: Path) -> Record:
    """Return the record with these bytes; raise `Corrupt` if a single bit has changed."""
    try:
        values = json.loads(data)
        stored, schema = values.pop("checksum"), values["schema"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt(f"{path}: not a whole record; {RERUN}") from None
    if stored != checksum(values):
        raise Corrupt(f"{path}: its checksum does not match; {RERUN}")
    _check_fields(values, schema, path)
    try:
        record = Record.from_json(values)
    except ValueError as error:
        raise Corrupt(f"{path}: {error}; {RERUN}") from None
    if encode(record) != data:
        raise Corrupt(f"{path}: not as it was written; {RERUN}")
    if record.id != path.parent.name or record.id != _id_of(record.cell):
        raise Corrupt(f"{path}: belongs to another cell than its folder says; delete {path.parent}")
    if record.status not in STATUSES or not set(record.files) <= set(FILES):
        raise Corrupt(f"{path}: its status or its list of files is none that repfl writes; {RERUN}")
    return record


def _id_of(cell: Mapping[str, Any]) -> str:
    """Return the id of a cell's JSON; empty if it is no cell."""
    try:
        return sha256(canonical(cell).encode()).hexdigest()
    except (TypeError, ValueError):
        return ""


def _check_fields(values: Mapping[str, Any], schema: Any, path: Path) -> None:
    """Refuse a record of another schema, or with fields that repfl does not write."""
    if schema != SCHEMA:
        raise UserError(
            f"{path}: record of schema {schema!r}, this repfl reads up to {SCHEMA}; update repfl,"
            " or use another results folder"
        )
    if set(values) != set(KINDS):
        raise Corrupt(
            f"{path}: fields {sorted(set(values) ^ set(KINDS))} are missing or unexpected; {RERUN}"
        )
    mistyped = [name for name, kind in KINDS.items() if not isinstance(values[name], kind)]
    if mistyped:
        raise Corrupt(f"{path}: field {mistyped[0]!r} is not of its type; {RERUN}")
