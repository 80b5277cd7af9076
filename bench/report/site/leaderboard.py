"""The leaderboard: the board's numbers by method, with the learning rates that validation chose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from repfl.bench.report.formats.markdown import table
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Book, Sheet

BOARD, ACCURACY = "board", "accuracy"
TABLES = ("table1", "table2", "table3")
"""The board's tables of ranks and accuracies, of clients and of costs."""
BASELINE = "fedavg-ft"
"""The method that any personalised method should beat: one model, fine-tuned by each client."""
FINE_TUNING = "learning rate of fine-tuning"
"""How the meaning of an option begins that multiplies the rate of fine-tuning."""
FINDINGS = re.compile(r"^## Findings$.*?(?=^## What it cannot say$)", re.MULTILINE | re.DOTALL)
"""The sections of the board's README that stand below the table."""


@dataclass(frozen=True)
class Line:
    """One row of the leaderboard."""

    row: str
    method: str
    year: int
    numbers: Mapping[str, Number]
    """By column of the board's tables."""
    rates: Mapping[str, str]
    """By setting, the tuned learning rates as median [lowest, highest] over studies."""
    fine_rates: Mapping[str, str]
    """By setting, the rates of fine-tuning, if the method has one."""

    def value(self, column: str) -> float:
        """Return a number, infinite if the row has none."""
        number = self.numbers.get(column)
        return inf if number is None or number.ours is None else number.ours

    def text(self, column: str) -> str:
        return self.numbers[column].ours_text if column in self.numbers else ""

    @property
    def accuracy(self) -> dict[str, Number]:
        """The accuracies by setting."""
        parts = ((key.partition("/"), number) for key, number in self.numbers.items())
        return {setting: number for (setting, _, name), number in parts if name == ACCURACY}


@dataclass(frozen=True)
class Leaderboard:
    """All methods, the best mean rank first, and the settings that have been run."""

    lines: Sequence[Line]
    settings: Mapping[str, str]
    own: Sequence[str]
    """The settings that addenda added: they have ranks of their own."""
    sheet: Sheet
    figure: Sheet | None
    findings: str = ""
    """What people wrote about the committed board, as Markdown."""

    @property
    def compared(self) -> list[Line]:
        return [line for line in self.lines if "rank" in line.numbers]

    @property
    def counts(self) -> str:
        """Return how many methods and rows there are, in a sentence."""
        keys = {"in the frozen list": "rank/frozen", "with the addenda": "rank"}
        keys |= {f"on {self.settings[setting]}": f"{setting}/rank" for setting in self.own}
        rows = {name: sum(key in line.numbers for line in self.lines) for name, key in keys.items()}
        listed = ", ".join(f"{count} {name}" for name, count in rows.items())
        methods = len({line.method for line in self.lines})
        return f"{methods} methods ran here, some in several variants; rows: {listed}."

    @property
    def needed(self) -> dict[str, float]:
        """By setting, from which difference on two quiet rows are significantly different."""
        halves: dict[str, list[float]] = {}
        for line in self.lines:
            for key, n in line.numbers.items():
                setting, _, name = key.partition("/")
                if name.startswith("minus ") and n.low is not None and n.high is not None:
                    halves.setdefault(setting, []).append((n.high - n.low) / 2)
        return {setting: min(halves[setting]) for setting in self.settings if setting in halves}

    @property
    def baseline(self) -> Line | None:
        """Return the best row of fine-tuned FedAvg."""
        return next((line for line in self.compared if line.method == BASELINE), None)


def leaderboard(book: Book) -> Leaderboard | None:
    """Return the leaderboard, or None if the report has no board or the board no run."""
    sheets = {sheet.name: sheet for sheet in book.sheets if sheet.paper == BOARD}
    first, measured = sheets.get(TABLES[0]), _measured(sheets)
    if first is None or not measured:
        return None
    lines = [_line(row, numbers, book) for row, numbers in measured.items()]
    shown = {setting for line in lines for setting in line.accuracy}
    labels = {c.key.partition("/")[0]: c.label for c in first.layout.columns if c.group == ACCURACY}
    settings = {setting: label for setting, label in labels.items() if setting in shown}
    own = [s for s in settings if any(f"{s}/rank" in line.numbers for line in lines)]
    order = ["rank", "rank/frozen", *(f"{setting}/rank" for setting in own)]
    lines.sort(key=lambda line: (*map(line.value, order), line.row))
    notes = FINDINGS.search(str(book.papers.get(BOARD, {}).get("notes", "")))
    written = notes[0] if notes and first.scale == "paper" else ""
    return Leaderboard(lines, settings, own, first, sheets.get("fig1"), written)


def _measured(sheets: Mapping[str, Sheet]) -> dict[str, dict[str, Number]]:
    """Return our numbers by row and column."""
    measured: dict[str, dict[str, Number]] = {}
    for number in (n for name in TABLES if name in sheets for n in sheets[name].numbers):
        if number.measured:
            measured.setdefault(number.row, {})[number.column] = number
    return measured


def _line(row: str, numbers: Mapping[str, Number], book: Book) -> Line:
    method = next((number.method for number in numbers.values()), "")
    facts = book.methods.get(method, {})
    options = facts.get("hyperparameters", ())
    multiples = [o["name"] for o in options if str(o["meaning"]).startswith(FINE_TUNING)]
    rates: dict[str, str] = {}
    fine_rates: dict[str, str] = {}
    line = Line(row, method, int(facts.get("year") or 0), numbers, rates, fine_rates)
    for setting, number in line.accuracy.items():
        runs = [book.runs[cell] for cell in number.runs if cell in book.runs]
        lr = [float(run["recipe"]["training"]["lr"]) for run in runs]
        rates[setting] = middle(lr)
        pairs = [(run["hp"], rate) for run, rate in zip(runs, lr, strict=True)]
        fine = [hp[option] * rate for option in multiples for hp, rate in pairs if option in hp]
        fine_rates |= {setting: middle(fine)} if fine else {}
    return line


def middle(values: Sequence[float]) -> str:
    """Return values as median [lowest, highest]."""
    if not values:
        return ""
    low, middle, high = (f"{of(values):.2g}" for of in (min, median, max))
    return middle if low == high else f"{middle} [{low}, {high}]"


def markdown(board: Leaderboard) -> str:
    """Return the leaderboard as two tables for a page on GitHub: ranks and accuracies; whom a
    method leaves worse off, what it sends, and its rates.
    """
    settings = board.settings
    first = {"Rank": "rank", "Frozen": "rank/frozen"}
    first |= {f"Rank, {settings[s]}": f"{s}/rank" for s in board.own}
    first |= {"Method": ""} | {f"{label}, %": f"{s}/accuracy" for s, label in settings.items()}
    second = {"Method": ""}
    second |= {f"worse than local, {label}, %": f"{s}/harm" for s, label in settings.items()}
    second |= {"KiB a round": "traffic"}
    rates = [
        [
            *(line.rates.get(s, "") for s in settings),
            "; ".join(dict.fromkeys(line.fine_rates.values())),
        ]
        for line in board.lines
    ]
    heads = [*(f"learning rate, {label}" for label in settings.values()), "fine-tuning rate"]
    none: list[list[str]] = [[] for _ in board.lines]
    return "\n".join((_table(board, first, [], none), _table(board, second, heads, rates)))


def _table(
    board: Leaderboard, keys: Mapping[str, str], more: Sequence[str], cells: Sequence[list[str]]
) -> str:
    """Return a table of some numbers of every line, and further cells."""
    rows = [
        [*(line.text(key) if key else line.row for key in keys.values()), *further]
        for line, further in zip(board.lines, cells, strict=True)
    ]
    return table([*keys, *more], rows, list(keys).index("Method")) + "\n"
