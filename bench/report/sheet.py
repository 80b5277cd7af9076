"""Artefacts as readers see them: what pages, files and the terminal show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pandas as pd

from repfl.bench.report.curves import CurveLine, curve_lines
from repfl.bench.report.formats import formatting
from repfl.bench.report.numbers import Number, is_number, of_result
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.number_text import plain
from repfl.paper_tables.core.result import Figure, Ordering, Result, Table, TableLayout
from repfl.paper_tables.core.statistics.verdict import EXACT


@dataclass(frozen=True)
class Sheet(Result):
    """One artefact."""

    kind: str = ""
    """table, figure or absent."""
    numbers: tuple[Number, ...] = ()
    judged: bool = False
    """True if any of its numbers is published."""
    quotes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By claim, the paper's own words, as far as the published files quote them."""
    layout: TableLayout = field(default_factory=lambda: TableLayout((), ()))
    floors: Mapping[str, str] = field(default_factory=dict)
    """The majority-class baseline, by column."""
    remarks: tuple[str, ...] = ()
    legend: str = ""
    orders: tuple[Ordering, ...] = ()
    summary: tuple[tuple[str, ...], ...] = ()
    """Statistics over all columns: a head, and a line per row."""
    tested: str = ""
    """What the statistics are computed from."""
    lines: Mapping[str, Mapping[str, list[list[float]]]] = field(default_factory=dict)
    """A figure's curves: panel, label, points of round and accuracy."""
    alt: str = ""
    files: tuple[str, ...] = ()
    """Its other forms, relative to the report."""
    command: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    """By column."""
    panels: Mapping[str, str] = field(default_factory=dict)
    """By column, what it is called."""
    logged: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """By source, the accuracy by round that the authors logged."""
    curves: tuple[CurveLine, ...] = ()
    """How far our curves lie from the paper's."""
    wants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By row and column, the runs that are missing: command, cells, seconds."""

    @property
    def of_a_paper(self) -> bool:
        """Return whether it follows a paper's protocol, not a user's own grid."""
        from repfl.bench.grid.grid import files

        return self.judged or self.paper in files()

    @property
    def page(self) -> str:
        return f"{self.paper}/{self.name}.html"

    def at(self) -> dict[tuple[str, str], Number]:
        """Return the numbers by row and column."""
        return {(number.row, number.column): number for number in self.numbers}

    @property
    def printed(self) -> list[Number]:
        """Return the numbers that the paper prints; a dash is none."""
        return [number for number in self.numbers if number.source and number.verdict]


@dataclass(frozen=True)
class Book:
    """Everything that the pages of a report show."""

    sheets: Sequence[Sheet]
    papers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By paper: title, year, and where it and its code are."""
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By cell, the facts about a run."""
    open: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By paper, the cells of its own scale that nobody has computed, and their cost."""
    test: Mapping[str, Any] = field(default_factory=dict)
    """The self-test."""
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    records: str = ""
    """The folder of records, relative to the report."""
    out: str = "."
    """Where the report is written."""
    documents: Mapping[str, str] = field(default_factory=dict)
    """What is said of all papers together, as Markdown: findings, and questions."""
    repository: str = ""
    """The web address of the repository, if known."""

    def name(self, paper: str) -> str:
        """Return how pages call a paper: by its method, which begins its title."""
        return str(self.papers.get(paper, {}).get("title", paper)).partition(":")[0]


# -- from results ----------------------------------------------------------------------------------


def sheet_of(result: Result, printed: Mapping[str, Mapping[str, Any]], **extra: Any) -> Sheet:
    """Return an artefact's sheet. `printed` are the rows of the published files by their source."""
    extra |= {each.name: getattr(result, each.name) for each in fields(Result)}
    extra |= {"kind": type(result).__name__.lower(), "quotes": _quotes(result, printed)}
    names = dict(extra.get("panels", {}))
    if isinstance(result, Table):
        names |= {column.key: column.name for column in result.layout.columns}
    extra["curves"] = curve_lines(result, names)
    if isinstance(result, Table):
        return Sheet(**extra, **_tabled(as_toy(result), printed))
    if isinstance(result, Figure):
        numbers = of_result(result, printed)
        lines = _lines(result.data, extra.get("panels", {}))
        return Sheet(**extra, numbers=numbers, judged=bool(numbers), lines=lines, alt=result.alt)
    return Sheet(**extra)


QUOTED = re.compile(r"“([^”]+)”")
MAX_FRAGMENT_WORDS = 3
"""Quotations of up to this many words are no sentence, such as “at least”."""


def _quotes(result: Result, printed: Mapping[str, Mapping[str, Any]]) -> dict[str, Sequence[str]]:
    """Return, by claim, the sentences that published files quote from the paper."""
    quotes: dict[str, Sequence[str]] = {}
    for claim in result.claims:
        notes = (str(printed.get(source, {}).get("note", "")) for source in claim.sources)
        texts = dict.fromkeys(text for note in notes for text in QUOTED.findall(note))
        quotes[claim.id] = [text for text in texts if len(text.split()) > MAX_FRAGMENT_WORDS]
    return quotes


def _tabled(table: Table, printed: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields that only tables have."""
    numbers, digits = of_result(table, printed), {c.key: c.digits for c in table.layout.columns}
    floors = formatting.floors(table).items()
    return {
        "remarks": tuple(tables.remarks(table.frame, table.layout.columns, table.layout.aside)),
        "numbers": numbers,
        "layout": table.layout,
        "floors": {key: plain(value, digits[key]) for key, value in floors},
        "legend": formatting.legend({word for number in numbers for word in number.evidence}),
        "judged": table.printed,
        "orders": table.orderings,
        "summary": _summary(pd.DataFrame() if _mixed(table) else table.summary),
        "tested": table.tested,
    }


def _mixed(table: Table) -> bool:
    """Return whether reduced runs are among the numbers of a paper's table: no statistics over all
    columns are shown beside printed numbers then.
    """
    ours = table.frame[table.frame["ours"].notna() & ~table.frame["kind"].isin([*map(str, EXACT)])]
    return table.printed and bool((ours["scale"] != "paper").any())


def _lines(data: pd.DataFrame, names: Mapping[str, str]) -> dict[str, dict[str, list[list[float]]]]:
    """Return a figure's curves, if it has any, by the name of their panel."""
    if not {"label", "round", "mean", "column"} <= set(data.columns):
        return {}
    panels: dict[str, dict[str, list[list[float]]]] = {}
    for cell in data.dropna(subset=["round"]).to_dict("records"):
        kind = str(cell.get("kind") or "")
        log = kind if "log" in kind else ""
        value = cell["mean"] if is_number(cell["mean"]) else cell.get("value")
        if value is None or not is_number(value):
            continue
        name = f"{cell['label']}{f', {log}' if log else ''}"
        title = names.get(str(cell["column"]), str(cell["column"]))
        line = panels.setdefault(title, {}).setdefault(name, [])
        line.append([float(cell["round"]), round(float(value), 3)])
    return panels


def _summary(frame: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    if not len(frame):
        return ()
    head = ("", *map(str, frame.columns))
    lines = (
        (str(row), *(formatting.statistic(str(name), value) for name, value in values.items()))
        for row, values in frame.iterrows()
    )
    return (head, *lines)


# -- toy runs --------------------------------------------------------------------------------------

HIDDEN = {
    **tables.printed_fields(None),
    **{
        name: tables.NO_VERDICT[name] for name in tables.NO_VERDICT if name not in ("kind", "basis")
    },
}
"""What is not shown of a number that digits stand in for."""


def as_toy(table: Table) -> Table:
    """Return a table of toy runs as readers see it: columns of trained numbers say that they are of
    digits, and no reported number stands beside them.
    """
    if table.scale != "smoke" or not table.printed:
        return table
    frame = table.frame.astype({"verdict": object})
    trained = ~frame["kind"].isin([*map(str, EXACT)])
    frame.loc[trained, list(HIDDEN)] = pd.DataFrame(HIDDEN, index=frame.index[trained])
    digits = set(frame.loc[trained, "column"])
    columns = [
        replace(
            c,
            group=f"digits (for {c.group})" if c.group else "",
            label=c.label if c.group else f"digits (for {c.label})",
        )
        if c.key in digits
        else c
        for c in table.layout.columns
    ]
    return replace(table, frame=frame, layout=replace(table.layout, columns=tuple(columns)))
