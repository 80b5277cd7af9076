"""Results of cells: their stored records, or else their committed runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repfl.bench.errors import Corrupt, UserError, one_line
from repfl.bench.evidence.committed.committed_run import Counts, Curve, Line, by_name, counts_of
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from repfl.paper_tables.core.evidence import Arrays, Reduce, curve_matches


class Records:
    """Records that are read once for all artefacts of a report. Damaged ones are not used, and are
    reported in `problems`.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.problems: list[str] = []
        self._records: dict[str, Record | None] = {}
        self._curves: dict[str, dict[str, Curve]] = {}
        self._why: dict[str, str] = {}

    def record(self, cell: str) -> Record | None:
        """Return a cell's record if all its files are as they were written; None if there is none
        or it is damaged.
        """
        if cell not in self._records:
            self._records[cell] = None
            try:
                self._records[cell] = self.store.whole(cell)
            except (Corrupt, UserError) as error:
                self._reject(cell, error)
        return self._records[cell]

    def _reject(self, cell: str, error: Exception) -> None:
        """Use a record no more, and report why."""
        self._records[cell], self._why[cell] = None, one_line(error)
        self.problems.append(one_line(error))

    def why_missing(self, cell: str) -> str:
        """Return why there is no usable record."""
        return self._why.get(cell, "not computed yet")

    def curves(self, record: Record, names: Sequence[str]) -> dict[str, Curve]:
        """Return the named curves of a record."""
        if record.id not in self._curves:
            self._curves[record.id] = {}
            try:
                self._curves[record.id] = by_name(self.store.frame(record, "rounds.parquet"))
            except Corrupt as error:
                self._reject(record.id, error)
        return {
            name: curve
            for name, curve in self._curves[record.id].items()
            if curve_matches(name, names)
        }

    def arrays(self, record: Record, reduce: Reduce) -> Arrays:
        """Return what `reduce` makes of a record's diagnostics."""
        try:
            return reduce(self.store.arrays(record))
        except Corrupt as error:
            self._reject(record.id, error)
            return {}

    def counts(self, record: Record) -> Counts | None:
        """Return each client's counts in the reported round of a record."""
        try:
            return counts_of(record, self.store)
        except Corrupt as error:
            self._reject(record.id, error)
            return None


class CellEvidence:
    """The evidence for cells: their stored records, or else the best committed run."""

    def __init__(self, records: Records, committed: CommittedRuns) -> None:
        self._records, self._committed = records, committed
        self.rows: dict[str, dict[str, Any]] = {}
        """Rows of the frame `runs` by cell, as far as they are made."""

    def record(self, cell: str) -> Record | None:
        if (record := self._records.record(cell)) is not None:
            return record
        line = self._committed.line(cell)
        return None if line is None else line.record

    def line(self, cell: str) -> Line | None:
        """Return the committed run that is used for a cell, if there is no record."""
        return self._committed.line(cell) if self._records.record(cell) is None else None

    def why_missing(self, cell: str) -> str:
        """Return why there is neither a record nor a line."""
        return self._records.why_missing(cell)

    def curves(self, cell: str, names: Sequence[str]) -> dict[str, Curve]:
        """Return those of the named curves of a cell that were committed."""
        if (record := self._records.record(cell)) is not None:
            return self._records.curves(record, names)
        line = self._committed.line(cell)
        curves = {} if line is None else line.curves
        return {name: curve for name, curve in curves.items() if curve_matches(name, names)}

    def counts(self, cell: str) -> Counts | None:
        """Return each client's counts in the reported round."""
        if (record := self._records.record(cell)) is not None:
            return self._records.counts(record)
        line = self._committed.line(cell)
        return None if line is None else line.counts

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        """Return what `reduce` makes of a cell's diagnostics, now or when they were committed."""
        if (record := self._records.record(cell)) is not None:
            return self._records.arrays(record, reduce)
        line = self._committed.line(cell)
        return {} if line is None else line.arrays.get(reduce.__name__, {})
