"""What artefacts are made from: the planned cells of one table or figure, each with what is known about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from bench.cells.plan import Planned
from bench.errors import Corrupt, UserError, one_line
from bench.evidence.measured import Measured
from bench.records.store import Record, Store


class Library:
    """Records read once for all artefacts of a report. Damaged ones are never used; their lines are kept in `problems`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.problems: list[str] = []
        self._records: dict[str, Record | None] = {}
        self._why: dict[str, str] = {}

    def record(self, cell: str) -> Record | None:
        """A cell's record with all its files as they were written; none if there is none or it cannot be trusted."""
        if cell not in self._records:
            self._records[cell] = None
            try:
                record = self.store.get(cell)
                if record is not None:
                    self.store.verify(record)
                self._records[cell] = record
            except (Corrupt, UserError) as error:
                self._why[cell] = one_line(error)
                self.problems.append(one_line(error))
        return self._records[cell]

    def why_missing(self, cell: str) -> str:
        """Why there is no record to use."""
        return self._why.get(cell, "not computed yet")


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Leaves of nested tables under dotted names; lists become tuples, which tables can group by."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = tuple(value) if isinstance(value, list) else value
    return flat


class Evidence:
    """The planned cells of one artefact at one scale, with everything that is known about them."""

    def __init__(self, planned: Sequence[Planned], library: Library, measured: Measured, published: pd.DataFrame) -> None:
        self._planned, self._library, self._measured = list(planned), library, measured
        self.published = published
        self.scale = planned[0].scale if planned else ""
        self.kind = planned[0].kind if planned else "table"
        self.seeds = tuple(sorted({item.cell.seed for item in planned}))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per planned cell, done or not."""
        return pd.DataFrame([self._row(item) for item in self._planned])

    def _row(self, item: Planned) -> dict[str, Any]:
        status, reason, metrics, source = self._known(item)
        value = metrics.get("value")
        recipe = item.cell.recipe
        return {
            "id": item.cell.id,
            "artefact": item.key,
            "row": item.row,
            "column": item.column,
            "column_label": item.column_label,
            "method": item.cell.method,
            "version": item.cell.version,
            "seed": item.cell.seed,
            "status": status,
            "reason": reason,
            "value": nan if value is None or status != "done" else float(value),
            "dataset": recipe["dataset"],
            "source": source,
            **flatten(recipe["partition"]["options"], "partition."),
            **flatten(item.cell.hp, "hp."),
            **flatten(recipe, "recipe."),
            **flatten(metrics.get("floor", {}), "floor."),
            **flatten(metrics.get("traffic", {}), "traffic."),
            "parameters": metrics.get("parameters"),
            "metrics": metrics,
        }

    def _known(self, item: Planned) -> tuple[str, str, Mapping[str, Any], str]:
        """Status, reason, metrics and source of a planned cell: its record, else its measured line, else why there is neither."""
        record = self._library.record(item.cell.id)
        if record is not None:
            return record.status, record.reason, record.metrics, "record"
        if (line := self._measured.cells.get(item.cell.id)) is not None:
            return line["status"], line["reason"], line["metrics"], "measured"
        if item.skip:
            return "skipped", item.skip, {}, "record"
        return "missing", self._library.why_missing(item.cell.id), {}, "record"

    # -- curves, counts, diagnostics -------------------------------------------------------------------------------------------------------

    def rounds(self, ids: Sequence[str]) -> pd.DataFrame:
        """Curves: id, round, name, value."""
        return _joined(self._frames(ids, "rounds.parquet"), ["id", "round", "name", "value"])

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        """Counts: id, round, point, client, correct, total."""
        return _joined(self._frames(ids, "clients.parquet"), ["id", "round", "point", "client", "correct", "total"])

    def _frames(self, ids: Sequence[str], name: str) -> Iterator[pd.DataFrame]:
        for cell in dict.fromkeys(ids):
            record = self._library.record(cell)
            if record is not None:
                frame = self._library.store.frame(record, name)
            else:
                frame = self._measured.frame(cell) if name == "rounds.parquet" else None
            if frame is not None:
                yield frame.assign(id=cell)

    def arrays(self, cell: str) -> dict[str, np.ndarray]:
        """Diagnostics of one cell; empty where there are none."""
        record = self._library.record(cell)
        return {} if record is None else self._library.store.arrays(record)


def _joined(frames: Iterator[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    found = list(frames)
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)
