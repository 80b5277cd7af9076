"""The leaderboard: every method under one tuning protocol, from the board's own tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from repfl.bench.report.artefact_data import ArtefactData, Book
from repfl.bench.report.numbers import Number
from repfl.paper_tables.board.findings import ordinal
from repfl.paper_tables.board.view import ADDED
from repfl.paper_tables.core.statistics import rank_statistics

BOARD = "board"
RATES = 3
"""Significant digits of a learning rate."""


@dataclass
class Line:
    """One method of the leaderboard."""

    row: str
    method: str
    year: int
    added: bool
    """Whether an addendum of the protocol added it."""
    rank: float | None = None
    place: int | None = None
    accuracy: dict[str, Number] = field(default_factory=dict)
    """By setting."""
    harm: dict[str, Number] = field(default_factory=dict)
    traffic: Number | None = None
    work: Number | None = None
    rates: dict[str, list[float]] = field(default_factory=dict)
    """By setting, the learning rate that each study chose."""


@dataclass(frozen=True)
class Leaderboard:
    """All methods, the best mean rank first, and the settings that have been run."""

    lines: Sequence[Line]
    settings: dict[str, str]
    span: dict[str, tuple[float, float]]
    """By setting, the range of accuracies, for bars."""
    sheet: ArtefactData
    ranks: pd.Series
    """Mean rank of every compared row, with those that addenda added."""
    picture: str = ""
    caption: str = ""
    """What the picture shows."""

    @property
    def frozen(self) -> list[Line]:
        return [line for line in self.lines if not line.added]

    @property
    def added(self) -> list[Line]:
        return [line for line in self.lines if line.added]

    @property
    def place_with_addenda(self) -> str:
        """Return the place of the frozen protocol's first method among all compared rows."""
        row = self.frozen[0].row
        if not self.added or pd.isna(self.ranks.get(row)):
            return ""
        return f"{ordinal(1 + int((self.ranks < self.ranks[row]).sum()))} of {len(self.ranks)}"


def leaderboard(book: Book) -> Leaderboard | None:
    """Return the leaderboard, or None if the report has no board or the board no run."""
    sheets = {sheet.name: sheet for sheet in book.sheets if sheet.paper == BOARD}
    first = sheets.get("table1")
    if first is None or not any(number.measured for number in first.numbers):
        return None
    settings = {
        head.key.partition("/")[0]: head.label
        for head in first.columns
        if any(n.measured for n in first.numbers if n.column == head.key)
    }
    lines = {
        row: Line(row, *_method(row, first, book), added=row in ADDED)
        for row in first.rows
        if any(n.measured for n in first.numbers if n.row == row)
    }
    for name, key in (("table1", "accuracy"), ("table2", "harm")):
        for setting, number in _numbers(sheets.get(name), key):
            if number.row in lines and setting in settings and number.measured:
                getattr(lines[number.row], key)[setting] = number
    for number in sheets["table3"].numbers if "table3" in sheets else ():
        if number.row in lines and number.column in ("traffic", "work") and number.measured:
            setattr(lines[number.row], number.column, number)
    for line in lines.values():
        line.rates = {s: _rates(n, book) for s, n in line.accuracy.items()}
    ranks = _ranks([line for line in lines.values() if not line.added], book, settings)
    places = ranks.rank(method="min")
    for row, rank in ranks.dropna().items():
        line = lines[str(row)]
        line.rank, line.place = float(rank), int(places[str(row)])
    compared = [line for line in lines.values() if line.row not in first.aside]
    figure = sheets.get("fig1")
    reached = {s: [n.ours or 0.0 for x in lines.values() for n in _in(x, s)] for s in settings}
    return Leaderboard(
        sorted(lines.values(), key=lambda x: (x.added, x.place or 999, x.rank or 999, x.row)),
        settings,
        {setting: (min(values), max(values)) for setting, values in reached.items()},
        first,
        _ranks(compared, book, settings),
        next((f for f in (figure.files if figure else ()) if f.endswith(".svg")), ""),
        figure.caption if figure else "",
    )


def _in(line: Line, setting: str) -> list[Number]:
    return [line.accuracy[setting]] if setting in line.accuracy else []


def _numbers(sheet: ArtefactData | None, key: str) -> Iterable[tuple[str, Number]]:
    for number in sheet.numbers if sheet else ():
        setting, _, name = number.column.partition("/")
        if name == key:
            yield setting, number


def _method(row: str, sheet: ArtefactData, book: Book) -> tuple[str, int]:
    method = next((n.method for n in sheet.numbers if n.row == row and n.method), "")
    return method, int(book.methods.get(method, {}).get("year") or 0)


def _rates(number: Number, book: Book) -> list[float]:
    runs = [book.runs[cell] for cell in number.runs if cell in book.runs]
    return [float(f"{run['recipe']['training']['lr']:.{RATES}g}") for run in runs]


def _ranks(lines: Sequence[Line], book: Book, settings: dict[str, str]) -> pd.Series:
    """Return mean ranks over settings and studies."""
    values: list[dict[str, Any]] = [
        {"row": line.row, "block": (s, run["seed"]), "value": run["value"]}
        for line in lines
        for s in settings
        for number in _in(line, s)
        for run in (book.runs[cell] for cell in number.runs if cell in book.runs)
    ]
    if not values:
        return pd.Series(dtype=float)
    wide = pd.DataFrame(values).pivot(index="row", columns="block", values="value")
    return rank_statistics.average_ranks(wide)
