"""How far the rows of a table can be told apart by their ranks over its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from repfl.bench.report.cache import digest
from repfl.bench.report.sheet import Number, Sheet
from repfl.bench.report.write import Book

LEAST = 3
"""Columns: over fewer, ranks tell nothing apart."""


@dataclass(frozen=True)
class Ranking:
    """Average ranks of a table's rows, the best first, over columns where all were measured."""

    sheet: Sheet
    scale: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, float], ...]
    gap: float
    """By how much two average ranks must differ (Nemenyi, 95 %)."""
    p: float
    """That ranks differ as much as here, were all rows alike (Friedman)."""

    @property
    def told(self) -> bool:
        """Whether the test finds any difference at all."""
        return self.p < 0.05

    def at(self, rank: float) -> float:
        """Where a rank stands between the first and the last place, in per cent."""
        return round(100 * min(1.0, (rank - 1) / (len(self.rows) - 1)), 1)

    def near(self, rank: float) -> bool:
        """Whether a rank cannot be told from the best one."""
        return not self.told or rank - self.rows[0][1] < self.gap


def rankings(book: Book) -> Iterator[Ranking]:
    """One per table of accuracies and scale. Columns that show the same runs in another way, such
    as their best round beside their last, count once.
    """
    for sheet in book.sheets:
        rows = [row for row in sheet.rows if row not in sheet.aside]
        if sheet.kind != "table" or len(rows) < 3:
            continue
        found: dict[str, dict[str, tuple[str, list[Number]]]] = {}
        at = sheet.at()
        for head in sheet.columns:
            mine = [at.get((row, head.key)) for row in rows]
            numbers = [n for n in mine if n is not None and n.measured and n.ids]
            scales = {n.scale for n in numbers}
            seeds = {tuple(sorted(_seeds(n, book))) for n in numbers}
            alike = len(scales) == 1 == len(seeds)
            if head.best != "high" or head.unit not in ("%", "percent") or not alike:
                continue
            if len(numbers) == len(rows) and (run := book.runs.get(numbers[0].ids[0])):
                of_scale = found.setdefault(scales.pop(), {})
                of_scale.setdefault(digest(run["recipe"]), (head.name, numbers))
        for scale, columns in found.items():
            if len(columns) >= LEAST:
                yield _ranking(sheet, scale, list(columns.values()))


def _seeds(number: Number, book: Book) -> Iterator[int]:
    return (book.runs[cell]["seed"] for cell in number.ids if cell in book.runs)


def _ranking(sheet: Sheet, scale: str, columns: list[tuple[str, list[Number]]]) -> Ranking:
    import pandas as pd
    from scipy import stats

    from repfl.paper_tables.board import analysis

    scores = pd.DataFrame(
        [
            {"method": number.row, "column": name, "study": 0, "value": number.value}
            for name, numbers in columns
            for number in numbers
        ]
    )
    average, gap = analysis.ranks(scores)
    by_row = [group["value"].to_numpy() for _, group in scores.groupby("method")]
    p = float(stats.friedmanchisquare(*by_row).pvalue)
    rows = tuple((str(row), float(rank)) for row, rank in average.sort_values().items())
    return Ranking(sheet, scale, tuple(name for name, _ in columns), rows, gap, p)
