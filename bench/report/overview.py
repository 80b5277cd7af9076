"""What the first screen of the report shows: verdicts, claims, and a heat map of methods against
data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import pandas as pd

from repfl.bench.report import numbers
from repfl.paper_tables.core.result import Absent, Column, Figure, Result, Table, shown, stated
from repfl.paper_tables.core.verdict import UNJUDGED, Kind, Verdict


@dataclass(frozen=True)
class Summary:
    """One paper in numbers."""

    paper: str
    title: str
    scales: tuple[str, ...]
    artefacts: int
    absent: int
    tables: int
    """Published numbers in tables, dashes left out; likewise in figures, and in sentences that are
    held against ours.
    """
    figures: int
    sentences: int
    verdicts: dict[str, int]
    kinds: dict[str, tuple[int, int]]
    """Per kind of number: how many there are, and how many of them have a verdict."""
    holds: int
    fails: int
    open: int

    @property
    def shares(self) -> list[tuple[str, int, float]]:
        """Verdicts that occur, with their count and share in percent."""
        judged = sum(self.verdicts.values())
        return [(v, n, 100 * n / judged) for v, n in self.verdicts.items() if n]

    @property
    def published(self) -> int:
        """Every number that the paper prints, wherever it is shown."""
        return self.tables + self.figures + self.sentences


def summaries(results: Sequence[Result], titles: dict[str, str]) -> list[Summary]:
    """One summary per paper, in the order of the results."""
    found = []
    for paper in dict.fromkeys(r.paper for r in results):
        own = [r for r in results if r.paper == paper]
        counted = numbers.counts(v for r in own for v in shown(r)["verdict"])
        claims = [c for r in own for c in r.claims]
        found.append(
            Summary(
                paper,
                titles.get(paper, paper),
                tuple(dict.fromkeys(r.scale for r in own)),
                len(own),
                sum(isinstance(r, Absent) for r in own),
                sum(len(shown(r).dropna()) for r in own if isinstance(r, Table)),
                sum(len(shown(r).dropna()) for r in own if isinstance(r, Figure)),
                sum(len(stated(r)) for r in own),
                counted,
                kinds(own),
                sum(c.holds is True for c in claims),
                sum(c.holds is False for c in claims),
                sum(c.holds is None for c in claims),
            )
        )
    return found


def kinds(results: Sequence[Result]) -> dict[str, tuple[int, int]]:
    """Per kind of number: how many there are, and how many of them have a verdict."""
    every = [
        pair
        for result in results
        for pair in shown(result)[["kind", "verdict"]].itertuples(index=False)
    ]
    found = {str(kind): [verdict for k, verdict in every if k == kind] for kind in Kind}
    counted = {
        kind: (len(given), sum(verdict not in UNJUDGED for verdict in given))
        for kind, given in found.items()
    }
    return counted | {str(Kind.TEXT): (sum(len(stated(result)) for result in results), 0)}


def verdict_names() -> list[str]:
    """All verdicts, best first."""
    return [str(v) for v in Verdict]


@dataclass(frozen=True)
class HeatCell:
    """One square: our mean accuracy, where it lies in its column (0 worst, 1 best), and what a
    pointer is told.
    """

    value: float
    shade: float
    told: str

    @property
    def text(self) -> str:
        return numbers.plain(self.value, 1)


Heading = tuple[str, str, str]


@dataclass(frozen=True)
class HeatMap:
    """Methods against (paper, data set, scale)."""

    columns: list[Heading]
    rows: list[tuple[str, list[HeatCell | None]]]


def heat_map(results: Sequence[Result]) -> HeatMap:
    """Our accuracy per method and data set, averaged over the settings of a paper's first table
    with that data set.
    """
    values: dict[Heading, dict[str, tuple[float, float]]] = {}
    for table in results:
        if not isinstance(table, Table):
            continue
        for place, keys in _places(table):
            if place not in values:
                values[place] = _means(table, keys)
    values = {place: column for place, column in values.items() if len(column) > 1}
    methods = sorted({m for column in values.values() for m in column})
    return HeatMap(
        list(values),
        [(method, [_square(column, method) for column in values.values()]) for method in methods],
    )


def _places(table: Table) -> Iterator[tuple[Heading, list[str]]]:
    """The accuracy columns of every data set: those under a heading, or single ones where a table
    has no headings.
    """
    for group, columns in table.layout.groups:
        settings: dict[str, Column] = {}
        for column in columns:
            if column.unit in ("%", "percent") and column.best == "high":
                settings.setdefault(
                    column.key.split("/")[0], column
                )  # of several columns of one setting the first
        if group and settings:
            yield (table.paper, group, table.scale), [c.key for c in settings.values()]
        elif not group:
            yield from (((table.paper, c.label, table.scale), [c.key]) for c in settings.values())


def _means(table: Table, keys: list[str]) -> dict[str, tuple[float, float]]:
    """Per method: mean of ours and, where these are comparable, of the published numbers over the
    columns; of several rows of a method the first counts.
    """
    frame = table.frame[
        table.frame["column"].isin(keys) & ~table.frame["row"].isin(table.layout.aside)
    ]
    found: dict[str, tuple[float, float]] = {}
    for row in table.layout.rows:
        cells = frame[(frame["row"] == row) & frame["ours"].notna()]
        if len(cells) and str(cells["method"].iloc[0]) not in found:
            found[str(cells["method"].iloc[0])] = (
                float(cells["ours"].astype(float).mean()),
                _mean(cells["published"]) if table.scale == "paper" else nan,
            )
    return found


def _mean(values: pd.Series) -> float:
    return float(values.astype(float).mean())


def _square(column: dict[str, tuple[float, float]], method: str) -> HeatCell | None:
    if method not in column:
        return None
    value, printed = column[method]
    known = [v for v, _ in column.values()]
    low, high = min(known), max(known)
    shade = (value - low) / (high - low) if high > low else 0.5
    told = f"ours {numbers.plain(value)}" + (
        f", published {numbers.plain(printed)}" if isfinite(printed) else ""
    )
    return HeatCell(value, shade, told)
