"""What a report says of one artefact, as plain data: every page, the terminal and the cache read
this, so that nothing has to be computed again to be shown again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from repfl.paper_tables.core.result import Result

LETTERS = {
    "α": "alpha",
    "β": "beta",
    "λ": "lambda",
    "τ": "tau",
    "θ": "theta",
    "Δ": "delta",
    "↑": "up",
    "↓": "down",
    "∞": "inf",
    "+": "plus",
}
"""What addresses write out."""


@dataclass(frozen=True)
class Number:
    """One number of a table, or one that a figure shows."""

    id: str
    """Its address within the artefact."""
    row: str
    column: str
    where: str
    """The column as readers know it."""
    published: str = ""
    ours: str = ""
    interval: str = ""
    difference: str = ""
    seeds: int = 0
    verdict: str = ""
    mark: str = ""
    kind: str = ""
    basis: str = ""
    tier: str = ""
    founded: str = ""
    reason: str = ""
    scale: str = ""
    method: str = ""
    source: str = ""
    unit: str = ""
    ids: tuple[str, ...] = ()
    ours_mark: str = ""
    published_mark: str = ""
    value: float | None = None
    printed: float | None = None
    gap: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None

    @property
    def measured(self) -> bool:
        return self.value is not None


@dataclass(frozen=True)
class Said:
    """A claim, and what became of it."""

    id: str
    text: str
    detail: str
    line: str
    """Everything in one line."""
    scale: str
    holds: bool | None
    suggests: bool | None
    printed: bool | None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Head:
    """One column."""

    key: str
    label: str
    name: str
    group: str
    unit: str
    digits: int
    best: str
    floor: str = ""


@dataclass(frozen=True)
class Order:
    """Whether a column ranks the rows as the paper does."""

    column: str
    rows: int
    tau: float | None
    printed: str
    ours: str


@dataclass(frozen=True)
class Sheet:
    """One artefact."""

    paper: str
    name: str
    kind: str
    title: str
    caption: str
    scale: str
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    claims: tuple[Said, ...] = ()
    numbers: tuple[Number, ...] = ()
    columns: tuple[Head, ...] = ()
    rows: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    corner: str = ""
    legend: str = ""
    judged: bool = False
    """Whether any of its numbers is published."""
    orders: tuple[Order, ...] = ()
    summary: tuple[tuple[str, ...], ...] = ()
    """Statistics over all columns: a head, and a line per row."""
    lines: Mapping[str, Mapping[str, list[list[float]]]] = field(default_factory=dict)
    """A figure's curves: panel, label, points of round and accuracy."""
    alt: str = ""
    ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Its other forms, relative to the report."""
    command: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    """By column."""
    logged: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """By source, the accuracy by round that the authors logged."""
    wants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By row and column, what would improve the evidence: command, cells, seconds."""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"

    @property
    def page(self) -> str:
        return f"{self.paper}/{self.name}.html"

    @property
    def groups(self) -> list[tuple[str, list[Head]]]:
        """Columns under their common headings, in order."""
        names = dict.fromkeys(head.group for head in self.columns)
        return [(name, [head for head in self.columns if head.group == name]) for name in names]

    def at(self) -> dict[tuple[str, str], Number]:
        """The numbers by row and column."""
        return {(number.row, number.column): number for number in self.numbers}

    @property
    def printed(self) -> list[Number]:
        """The numbers that the paper prints; a dash is none."""
        return [number for number in self.numbers if number.source and number.verdict]


def encode(sheet: Sheet) -> dict[str, Any]:
    return asdict(sheet)


def decode(values: Mapping[str, Any]) -> Sheet:
    """A sheet from what `encode` made of it, by way of JSON."""
    nested = {"claims": Said, "numbers": Number, "columns": Head, "orders": Order}
    read = {
        name: tuple(nested[name](**_tuples(each)) for each in value) if name in nested else value
        for name, value in values.items()
    }
    summary = tuple(tuple(line) for line in values["summary"])
    return Sheet(**_tuples(read) | {"summary": summary})


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def slug(text: str) -> str:
    """A name as part of an address."""
    written = "".join(LETTERS.get(letter, letter) for letter in text)
    return re.sub(r"[^a-z0-9.]+", "-", written.lower()).strip("-") or "x"


def addressed(names: Iterable[str]) -> list[str]:
    """Addresses for names, each once: of equal ones the later are counted."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return found


# -- from results ----------------------------------------------------------------------------------


def of(result: Result, printed: Mapping[str, Mapping[str, Any]], **told: Any) -> Sheet:
    """The sheet of an artefact. `printed` are the rows of the published files by their source."""
    from repfl.bench.report import numbers, render
    from repfl.paper_tables.core import tables
    from repfl.paper_tables.core.result import Figure, Table

    kind = type(result).__name__.lower()
    claims = tuple(
        Said(
            c.id,
            c.text,
            c.detail,
            render.claim(c, result.paper),
            c.scale,
            c.holds,
            c.suggests,
            c.printed,
            tuple(c.sources),
        )
        for c in result.claims
    )
    base = {
        "paper": result.paper,
        "name": result.name,
        "kind": kind,
        "title": result.title,
        "caption": result.caption,
        "scale": result.scale,
        "findings": tuple(result.findings),
        "notes": tuple(result.notes),
        "claims": claims,
        "ids": tuple(result.ids),
        **told,
    }
    if isinstance(result, Figure):
        shown = tuple(_points(result.data, printed))
        return Sheet(
            **base, numbers=shown, judged=bool(shown), lines=_lines(result.data), alt=result.alt
        )
    if not isinstance(result, Table):
        return Sheet(**base)
    best = {side: numbers.marks(result, side) for side in ("ours", "published")}
    floors = numbers.floors(result)
    heads = tuple(
        Head(
            c.key,
            c.label,
            c.name,
            c.group,
            c.unit,
            c.digits,
            c.best or "",
            numbers.plain(floors[c.key], c.digits) if c.key in floors else "",
        )
        for c in result.layout.columns
    )
    columns = {head.key: head for head in heads}
    cells = [cell for _, cell in result.frame.iterrows() if cell["column"] in columns]
    ids = addressed(f"{slug(cell['row'])}.{slug(cell['column'])}" for cell in cells)
    return Sheet(
        **base,
        remarks=tuple(tables.remarks(result.frame, result.layout.columns)),
        numbers=tuple(
            _number(id_, cell, columns[cell["column"]], best)
            for id_, cell in zip(ids, cells, strict=True)
        ),
        columns=heads,
        rows=tuple(result.layout.rows),
        aside=tuple(result.layout.aside),
        corner=result.layout.corner,
        legend=numbers.legend(result.frame),
        judged=result.printed,
        orders=tuple(
            Order(o.column, o.rows, o.tau, o.winner_published, o.winner) for o in result.orderings
        ),
        summary=_summary(result.summary),
    )


def _number(id_: str, cell: pd.Series, head: Head, best: Mapping[str, Any]) -> Number:
    from repfl.bench.report import numbers

    key, digits = (cell["row"], head.key), head.digits
    return Number(
        id_,
        cell["row"],
        head.key,
        head.name,
        **_common(cell, digits),
        interval=numbers.between(cell["low"], cell["high"], digits),
        founded=numbers.founded(cell),
        tier=_text(cell["tier"]),
        reason=_text(cell["reason"]),
        method=_text(cell["method"]),
        unit=head.unit,
        ids=tuple(cell["ids"]),
        ours_mark=best["ours"].get(key, ""),
        published_mark=best["published"].get(key, ""),
        floor=_finite(cell["floor"]),
    )


def _common(cell: Any, digits: int) -> dict[str, Any]:
    """What numbers of tables and of figures have in common."""
    from repfl.bench.report import numbers

    return {
        "published": numbers.published(cell, digits) if cell["source"] else "",
        "ours": numbers.spread(cell["ours"], cell["std"], digits) if _known(cell["ours"]) else "",
        "difference": numbers.gap(cell, digits),
        "seeds": int(cell["seeds"]) if _known(cell["seeds"]) else 0,
        "verdict": _text(cell["verdict"]),
        "mark": _text(cell["mark"]),
        "kind": _text(cell["kind"]),
        "basis": _text(cell["basis"]),
        "scale": _text(cell.get("scale", "")),
        "source": _text(cell["source"]),
        "value": _finite(cell["ours"]),
        "printed": _finite(cell["published"]),
        "gap": _finite(cell["difference"]),
        "low": _finite(cell["gap_low"]),
        "high": _finite(cell["gap_high"]),
    }


def _points(data: pd.DataFrame, printed: Mapping[str, Mapping[str, Any]]) -> Iterable[Number]:
    """The published numbers that a figure shows."""
    if not {"source", "verdict", "kind", "ours"} <= set(data.columns):
        return
    told = data[data["source"] != ""].assign(printed="", published_std=float("nan"))
    rows = [printed.get(str(source), {}) for source in told["source"]]
    names = (
        slug(f"{row.get('method', '')} {row.get('dataset', '')} {row.get('setting', '')}")
        for row in rows
    )
    cells = (cell for _, cell in told.iterrows())
    for cell, row, id_ in zip(cells, rows, addressed(names), strict=True):
        where = ", ".join(filter(None, (str(row.get(k, "")) for k in ("dataset", "setting"))))
        yield Number(
            id_, str(row.get("method", "")), str(cell["column"]), where, **_common(cell, 2)
        )


def _lines(data: pd.DataFrame) -> dict[str, dict[str, list[list[float]]]]:
    """A figure's curves, where it has any."""
    if not {"label", "round", "mean", "column"} <= set(data.columns):
        return {}
    panel = "short" if "short" in data else "column"
    found: dict[str, dict[str, list[list[float]]]] = {}
    for cell in data.dropna(subset=["round"]).to_dict("records"):
        kind = str(cell.get("kind") or "")
        log = kind if "log" in kind else ""
        value = cell["mean"] if _known(cell["mean"]) else cell.get("value")
        if value is None or not _known(value):
            continue
        name = f"{cell['label']}{f', {log}' if log else ''}"
        line = found.setdefault(str(cell[panel]), {}).setdefault(name, [])
        line.append([float(cell["round"]), round(float(value), 3)])
    return found


def _summary(frame: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    from repfl.bench.report import numbers

    if not len(frame):
        return ()
    head = ("", *map(str, frame.columns))
    lines = (
        (str(row), *(numbers.statistic(str(name), value) for name, value in values.items()))
        for row, values in frame.iterrows()
    )
    return (head, *lines)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _known(value: Any) -> bool:
    return isinstance(value, int | float) and value == value


def _finite(value: Any) -> float | None:
    return round(float(value), 6) if _known(value) and isfinite(value) else None
