"""The leaderboard: every method under one tuning protocol, from the board's own tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import pandas as pd

from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Book, Sheet
from repfl.paper_tables.board.view import ADDED, ADDED_COLUMNS
from repfl.paper_tables.core.statistics import rank_statistics

BOARD = "board"
FINE_TUNING = "learning rate of fine-tuning"
"""How the meaning of an option begins that multiplies the rate of fine-tuning."""
LAST = 999
"""The place of a row without one."""
RATES = 3
"""Significant digits of a learning rate."""


@dataclass(frozen=True)
class Line:
    """One method of the leaderboard."""

    row: str
    method: str
    year: int
    added: bool
    """Whether an addendum of the protocol added it."""
    rank: float | None = None
    """Mean rank over the protocol's settings and studies among all compared rows."""
    place: int | None = None
    """Its place by that."""
    frozen_place: int | None = None
    """Its place among the rows of the frozen protocol alone."""
    own_places: dict[str, int] = field(default_factory=dict)
    """Its place by accuracy in each setting that an addendum added."""
    accuracy: dict[str, Number] = field(default_factory=dict)
    """By setting."""
    harm: dict[str, Number] = field(default_factory=dict)
    traffic: Number | None = None
    work: Number | None = None
    rates: dict[str, list[float]] = field(default_factory=dict)
    """By setting, the learning rate that each study chose."""
    fine_rates: dict[str, list[float]] = field(default_factory=dict)
    """By setting, the rate of fine-tuning that each study chose, if the method has one."""

    def rate(self, setting: str) -> str:
        """Return the tuned learning rates of a setting as median [lowest, highest]."""
        return _middle(self.rates.get(setting, []))

    def fine_rate(self, setting: str) -> str:
        return _middle(self.fine_rates.get(setting, []))


def _middle(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, middle, high = (f"{v:.2g}" for v in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} [{low}, {high}]"


@dataclass(frozen=True)
class Leaderboard:
    """All methods, the best mean rank first, and the settings that have been run."""

    lines: Sequence[Line]
    settings: dict[str, str]
    own: tuple[str, ...]
    """The settings that addenda added: they have ranks of their own."""
    span: dict[str, tuple[float, float]]
    """By setting, the range of accuracies, for bars."""
    sheet: Sheet
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
    def compared(self) -> list[Line]:
        return [line for line in self.lines if line.place]

    @property
    def title(self) -> str:
        """Return the finding: who is first among all compared rows, and in the frozen protocol."""
        first = self.compared[0]
        title = f"{first.row} ranks first of {len(self.compared)} equally tuned methods"
        frozen = min(self.frozen, key=lambda line: line.frozen_place or len(self.lines))
        if frozen.row == first.row or not frozen.frozen_place:
            return title
        return f"{title}; {frozen.row} leads the frozen protocol"


def leaderboard(book: Book) -> Leaderboard | None:
    """Return the leaderboard, or None if the report has no board or the board no run."""
    sheets = {sheet.name: sheet for sheet in book.sheets if sheet.paper == BOARD}
    measured: Measured = {
        (sheet.name, n.row, n.column): n
        for sheet in sheets.values()
        for n in sheet.numbers
        if n.measured
    }
    first = sheets.get("table1")
    if first is None or not any(table == "table1" for table, _, _ in measured):
        return None
    columns = {column for table, _, column in measured if table == "table1"}
    settings = {h.key.partition("/")[0]: h.label for h in first.layout.columns if h.key in columns}
    rows = [row for row in first.layout.rows if any(key[:2] == ("table1", row) for key in measured)]
    lines = [_line(row, first, measured, settings, book) for row in rows]
    own = tuple(setting for setting in settings if setting in ADDED_COLUMNS)
    protocol = [setting for setting in settings if setting not in own] or list(settings)
    ranks = _ranks([line for line in lines if line.row not in first.layout.aside], book, protocol)
    places = ranks.dropna().rank(method="min").astype(int).to_dict()
    frozen = _ranks([line for line in lines if not line.added], book, protocol)
    own_places = {setting: _places(lines, setting) for setting in own}
    frozen_places = frozen.dropna().rank(method="min").astype(int).to_dict()
    lines = [
        replace(
            line,
            rank=float(ranks[line.row]) if line.row in places else None,
            place=places.get(line.row),
            frozen_place=frozen_places.get(line.row),
            own_places={
                setting: places[line.row]
                for setting, places in own_places.items()
                if line.row in places
            },
        )
        for line in lines
    ]
    figure = sheets.get("fig1")
    reached = {s: [n.ours or 0.0 for x in lines for n in _in(x, s)] for s in settings}
    return Leaderboard(
        sorted(lines, key=_order),
        settings,
        own,
        {setting: (min(values), max(values)) for setting, values in reached.items()},
        first,
        next((f for f in (figure.files if figure else ()) if f.endswith(".svg")), ""),
        figure.caption if figure else "",
    )


def _order(line: Line) -> tuple[int, int, int, str]:
    own = min(line.own_places.values(), default=LAST)
    return line.place or LAST, line.frozen_place or LAST, own, line.row


def _places(lines: Sequence[Line], setting: str) -> dict[str, int]:
    """Return places by accuracy in one setting."""
    values = {line.row: line.accuracy[setting].ours for line in lines if setting in line.accuracy}
    places = pd.Series(values, dtype=float).rank(method="min", ascending=False)
    return {str(row): int(place) for row, place in places.items()}


Measured = dict[tuple[str, str, str], Number]
"""Numbers of ours by table, row and column."""


def _line(row: str, first: Sheet, measured: Measured, settings: Iterable[str], book: Book) -> Line:
    """Return the line of one row, as far as it has been run."""

    def by_setting(table: str, name: str) -> dict[str, Number]:
        found = {s: measured.get((table, row, f"{s}/{name}")) for s in settings}
        return {setting: number for setting, number in found.items() if number is not None}

    accuracy = by_setting("table1", "accuracy")
    return Line(
        row,
        *_method(row, first, book),
        added=row in ADDED,
        accuracy=accuracy,
        harm=by_setting("table2", "harm"),
        traffic=measured.get(("table3", row, "traffic")),
        work=measured.get(("table3", row, "work")),
        rates={setting: _rates(number, book) for setting, number in accuracy.items()},
        fine_rates={setting: _fine_rates(number, book) for setting, number in accuracy.items()},
    )


def _in(line: Line, setting: str) -> list[Number]:
    return [line.accuracy[setting]] if setting in line.accuracy else []


def _method(row: str, sheet: Sheet, book: Book) -> tuple[str, int]:
    method = next((n.method for n in sheet.numbers if n.row == row and n.method), "")
    return method, int(book.methods.get(method, {}).get("year") or 0)


def _rates(number: Number, book: Book) -> list[float]:
    runs = [book.runs[cell] for cell in number.runs if cell in book.runs]
    return [float(f"{run['recipe']['training']['lr']:.{RATES}g}") for run in runs]


def _fine_rates(number: Number, book: Book) -> list[float]:
    """Return the rates of fine-tuning: the learning rate times the option that multiplies it."""
    options = book.methods.get(number.method, {}).get("hyperparameters", ())
    multiples = [o["name"] for o in options if str(o["meaning"]).startswith(FINE_TUNING)]
    runs = [book.runs[cell] for cell in number.runs if cell in book.runs]
    return [
        float(run["hp"][name]) * float(run["recipe"]["training"]["lr"])
        for name in multiples
        for run in runs
        if name in run["hp"]
    ]


def markdown(board: Leaderboard) -> str:
    """Return the leaderboard as a table for a page on GitHub."""
    settings = board.settings
    head = ["Rank", "Frozen", *(f"Rank, {settings[s]}" for s in board.own), "Method"]
    head += [f"{label}, %" for label in settings.values()]
    head += [f"worse than local, {label}, %" for label in settings.values()]
    head += ["KiB a round", *(f"learning rate, {label}" for label in settings.values())]
    head += ["fine-tuning rate"]
    lines = [head, ["---" if name == "Method" else "---:" for name in head]]
    for line in board.lines:
        fine = dict.fromkeys(filter(None, (line.fine_rate(setting) for setting in settings)))
        cells = [str(line.place or ""), str(line.frozen_place or "")]
        cells += [*(str(line.own_places.get(s, "")) for s in board.own), line.row]
        cells += [line.accuracy[s].ours_text if s in line.accuracy else "" for s in settings]
        cells += [line.harm[s].ours_text if s in line.harm else "" for s in settings]
        cells += [line.traffic.ours_text if line.traffic else ""]
        cells += [*(line.rate(setting) for setting in settings), "; ".join(fine)]
        lines.append(cells)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _ranks(lines: Sequence[Line], book: Book, settings: Sequence[str]) -> pd.Series:
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
