"""What the gate keeps of a cell: enough to say whether, where and by how much another run
differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, sqrt
from typing import Any

from repfl.bench.store.store import Record, Store

Entry = Mapping[str, Any]
DIGITS = 12
"""Significant digits that are kept of a float; both sides of a comparison are rounded to them."""

COLUMNS = ["round", "point", "client", "correct", "total"]


def entry_of(record: Record, store: Store) -> dict[str, Any]:
    """The entry of a record, from the files as they were stored."""
    kept: dict[str, Any] = {
        "version": record.cell["version"],
        "status": record.status,
        "reason": record.reason,
    }
    if record.status != "done":
        return kept
    clients = _clients(record, store)
    arrays = {
        name: _size(value)
        for name, value in store.arrays(record).items()
        if value.dtype.kind in "biuf"
    }
    return kept | {
        "partition": record.provenance["partition"][:16],
        "metrics": _rounded(record.metrics),
        "totals": totals_of(clients),
        "counts": counts_of(clients),
        "norms": _rounded(record.provenance["norms"]),
        "arrays": _rounded(arrays),
    }


def _clients(record: Record, store: Store) -> list[tuple[Any, ...]]:
    """Return the rows of a record's counts."""
    frame = store.frame(record, "clients.parquet")
    return [] if frame is None else list(frame[COLUMNS].itertuples(index=False, name=None))


def counts_of(rows: Sequence[tuple[Any, ...]]) -> dict[str, dict[str, str]]:
    """Correct predictions by scoring point and round, as `client:correct` for all scored."""
    found: dict[str, dict[str, str]] = {}
    for round_, point, client, correct, _ in sorted(rows):
        earlier = found.setdefault(point, {}).get(str(round_), "")
        found[point][str(round_)] = f"{earlier} {client}:{correct}".lstrip()
    return found


def totals_of(rows: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """Samples scored by scoring point, as `client:samples`; several where rounds differ."""
    found: dict[str, dict[tuple[int, int], None]] = {}
    for _, point, client, _, total in sorted(rows):
        found.setdefault(point, {})[client, total] = None
    return {
        point: " ".join(f"{client}:{total}" for client, total in sorted(pairs))
        for point, pairs in found.items()
    }


def pairs(text: str) -> list[tuple[int, int]]:
    """The inverse of both."""
    return [
        (int(client), int(number))
        for client, _, number in (part.partition(":") for part in text.split())
    ]


def _size(array: Any) -> float:
    """Root mean square."""
    return sqrt(float((array.astype("float64") ** 2).mean())) if array.size else 0.0


def _rounded(value: Any) -> Any:
    """Every float with as many digits as are kept; whole floats as integers, as JSON has them."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, float) and isfinite(value):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() else short
    return str(value) if isinstance(value, float) else value
