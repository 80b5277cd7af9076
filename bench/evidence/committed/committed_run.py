"""One committed run: what one contributor got for one cell on one platform."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from repfl.bench.store import versions
from repfl.bench.store.contents import lacking
from repfl.bench.store.record import Record, checksum
from repfl.bench.store.store import Store
from repfl.bench.store.summary import reported_curve
from repfl.bench.store.versions import Currency
from repfl.paper_tables.core.evidence import Arrays

PROVENANCE = (
    "contributor", "commit", "dirty", "finished", "versions", "libraries", "platform",
    "device", "precision", "chunk", "threads", "data", "partition", "samples", "seconds",
    "peak_memory", "work", "digests",
)  # fmt: skip
"""The fields of a record's provenance that are committed."""
RECORD = ("id", "cell", "status", "reason", "metrics", "provenance")
"""The fields of a record that a line has."""


class Curve(NamedTuple):
    """Values by round."""

    rounds: np.ndarray  # int64 [n]
    values: np.ndarray  # float64 [n]


class Counts(NamedTuple):
    """How many of its own test samples each client's model got right in the reported round."""

    clients: np.ndarray  # int64 [n]
    correct: np.ndarray  # int64 [n]
    total: np.ndarray  # int64 [n]


@dataclass(frozen=True)
class Line:
    """A finished cell, by one contributor on one platform."""

    record: Record
    """Without files."""
    column: str = ""
    """The name of the cell's recipe in the paper's grid."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """The curve that the value was taken from, and those that a table or figure reads."""
    counts: Counts | None = None
    """None for a run that diverged, and in lines of before 22 November 2026."""
    arrays: Mapping[str, Arrays] = field(default_factory=dict)
    """Diagnostics, as reduced by the function of that name for a figure."""

    @property
    def cell(self) -> str:
        return self.record.id

    @property
    def method(self) -> str:
        return str(self.record.cell["method"])

    @property
    def contributor(self) -> str:
        return self.record.origin.contributor

    @property
    def platform(self) -> str:
        return self.record.origin.platform.fingerprint

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what identifies a line in its file: cell, platform and contributor."""
        return self.cell, self.platform, self.contributor

    @property
    def value(self) -> float | None:
        return self.record.value

    @property
    def digests(self) -> Mapping[str, str]:
        return self.record.origin.digests or {}

    @cached_property
    def currency(self) -> Currency:
        """Return whether the line was computed by today's versions."""
        return versions.of_line(self.record.origin, self.record.cell)

    @cached_property
    def json(self) -> dict[str, Any]:
        """Return the line as JSON values, with its checksum."""
        stored = self.record.json
        origin = stored["provenance"]
        values = {
            "id": stored["id"],
            "column": self.column,
            **{name: stored[name] for name in ("cell", "status", "reason", "metrics")},
            "curves": {name: _plain(curve) for name, curve in self.curves.items()},
            "counts": None if self.counts is None else _plain(self.counts),
            "arrays": {name: _encoded(arrays) for name, arrays in self.arrays.items()},
            "provenance": {name: origin[name] for name in PROVENANCE if name in origin},
        }
        return {**values, "checksum": checksum(values)}


def _plain(values: Curve | Counts) -> dict[str, list[Any]]:
    return {name: array.tolist() for name, array in values._asdict().items()}


def _encoded(arrays: Arrays) -> dict[str, Any]:
    return {
        name: {"dtype": array.dtype.str, "shape": array.shape, "values": array.ravel().tolist()}
        for name, array in arrays.items()
    }


def _decoded(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {
        name: np.array(each["values"], dtype=each["dtype"]).reshape(each["shape"])
        for name, each in arrays.items()
    }


@cache
def parse(text: str) -> Line:
    """Return the line that a text encodes. Raise ValueError if it is not as `repfl collect` wrote
    it. Lines are cached: a report parses each several times.
    """
    values = json.loads(text)
    if not isinstance(values, dict) or values.pop("checksum", None) != checksum(values):
        raise ValueError("not as it was collected: its checksum does not match")
    try:
        record = Record.from_json({name: values[name] for name in RECORD})
        if wrong := lacking(record.status, record.metrics, record.provenance):
            raise ValueError(wrong)
        return _line(record, values)
    except ValueError as error:
        raise ValueError(f"cell {str(values['id'])[:12]}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a committed run: {type(error).__name__} {error}") from None


def _line(record: Record, values: Mapping[str, Any]) -> Line:
    counts = values["counts"]
    return Line(
        record,
        values["column"],
        {
            name: Curve(np.array(each["rounds"], dtype=np.int64), np.array(each["values"], float))
            for name, each in values["curves"].items()
        },
        counts and Counts(*(np.array(counts[name], dtype=np.int64) for name in Counts._fields)),
        {name: _decoded(each) for name, each in values["arrays"].items()},
    )


# -- from a stored record --------------------------------------------------------------------------


def line_of(
    record: Record, store: Store, column: str = "", names: Collection[str] | None = None
) -> Line:
    """Return the line of a stored record, with all its curves or the named ones, and always with
    the curve that its value was taken from.
    """
    if record.status != "done":
        return Line(record, column)
    reported = "/".join(reported_curve(record.recipe.evaluation))
    # in the order of the record, not of `names`, so that one record always gives the same line
    curves = {
        name: curve
        for name, curve in by_name(store.frame(record, "rounds.parquet")).items()
        if names is None or name in names or name == reported
    }
    return Line(record, column, curves, counts_of(record, store))


def counts_of(record: Record, store: Store) -> Counts | None:
    """Return the counts of the reported round of a finished cell."""
    frame, round_ = store.frame(record, "clients.parquet"), record.round
    if frame is None or round_ is None:
        return None
    point, _ = reported_curve(record.recipe.evaluation)
    rows = frame[(frame["round"] == round_) & (frame["point"] == point)].sort_values("client")
    return Counts(*(rows[name].to_numpy(dtype=np.int64) for name in ("client", "correct", "total")))


def by_name(frame: pd.DataFrame | None) -> dict[str, Curve]:
    """Return the curves of a record by name, in the order in which they were first logged."""
    if frame is None or frame.empty:
        return {}
    # several times as fast as a groupby
    codes, names = pd.factorize(frame["name"])
    order = np.argsort(codes, kind="stable")
    cuts = np.cumsum(np.bincount(codes))[:-1]
    rounds, values = (
        np.split(frame[field].to_numpy()[order], cuts) for field in ("round", "value")
    )
    return {str(name): Curve(*pair) for name, *pair in zip(names, rounds, values, strict=True)}


# -- as data frames --------------------------------------------------------------------------------


def curves_frame(cells: Iterable[tuple[str, Mapping[str, Curve]]]) -> pd.DataFrame:
    """Return curves of cells in long form: id, name, round, value."""
    rows = [(cell, name, curve) for cell, curves in cells for name, curve in curves.items()]
    lengths = [len(curve.rounds) for _, _, curve in rows]
    rounds = np.concatenate([np.zeros(0, dtype=np.int64), *(each.rounds for _, _, each in rows)])
    return pd.DataFrame(
        {
            "id": _repeated([cell for cell, _, _ in rows], lengths),
            "name": _repeated([name for _, name, _ in rows], lengths),
            "round": rounds,
            "value": np.concatenate([np.zeros(0), *(each.values for _, _, each in rows)]),
        }
    )


def counts_frame(cells: Iterable[tuple[str, Counts | None]]) -> pd.DataFrame:
    """Return counts of cells in long form: id, client, correct, total."""
    rows = [(cell, counts) for cell, counts in cells if counts is not None]
    empty = np.zeros(0, dtype=np.int64)
    columns = zip(*(counts for _, counts in rows), strict=True) if rows else ((empty,),) * 3
    ids = _repeated([cell for cell, _ in rows], [len(counts.clients) for _, counts in rows])
    values = map(np.concatenate, columns)
    return pd.DataFrame(
        {"id": ids, **dict(zip(("client", "correct", "total"), values, strict=True))}
    )


def _repeated(texts: Sequence[str], lengths: Sequence[int]) -> pd.Series:
    """Return texts as a column of plain objects, the fastest type for many small selections."""
    return pd.Series(np.repeat(np.array(texts, dtype=object), lengths), dtype=object)
