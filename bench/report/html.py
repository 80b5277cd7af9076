"""The page: one self-contained file that asks nothing of a server or a network."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from repfl.bench.report import numbers, overview, render
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.result import Column, Figure, Result, Table
from repfl.paper_tables.core.verdict import RULE, Kind

TEMPLATES = Path(__file__).parent / "templates"
APART = ("papers", "results", "measured", "operating")
"""Parts of the provenance that are no facts to be listed."""


@dataclass(frozen=True)
class TableCell:
    """One cell of a table as the page shows it."""

    ours: str
    published: str
    difference: str
    verdict: str
    mark: str
    founded: str
    reason: str
    ours_mark: str
    published_mark: str
    order: float
    """What sorting uses."""


@dataclass(frozen=True)
class NumberLine:
    """One line of the list of all numbers."""

    row: str
    column: str
    published: str
    ours: str
    seeds: int
    interval: str
    difference: str
    verdict: str
    mark: str
    kind: str
    basis: str
    reason: str
    source: str
    ids: tuple[str, ...]
    orders: tuple[float, ...]
    """What sorting the columns published, ours, seeds and difference uses."""


@dataclass(frozen=True)
class Section:
    """One artefact on the page."""

    result: Result
    command: str
    files: tuple[str, ...]
    image: str = ""
    columns: tuple[Column, ...] = ()
    lines: tuple[tuple[str, bool, tuple[TableCell | None, ...]], ...] = ()
    floors: dict[str, str] = field(default_factory=dict)
    numbers: tuple[NumberLine, ...] = ()
    remarks: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        return self.result.key.replace("/", "-")

    @property
    def legend(self) -> str:
        return numbers.legend(self.result.frame) if isinstance(self.result, Table) else ""

    @property
    def ranked(self) -> bool:
        return any(column.best for column in self.columns)

    @property
    def kind(self) -> str:
        return type(self.result).__name__.lower()


def page(
    results: Sequence[Result],
    provenance: Mapping[str, Any],
    commands: Mapping[str, str],
    out: Path,
    files: Mapping[str, Sequence[str]],
) -> str:
    """The whole page. `files` are the other forms of each artefact, relative to the folder `out`
    where the page will lie.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "plain": numbers.plain,
        "signed": numbers.signed,
        "statistic": numbers.statistic,
        "emphasise": emphasise,
        "facts": facts,
    }
    papers = {str(k): str(v.get("title", k)) for k, v in provenance.get("papers", {}).items()}
    sections = [
        section(r, commands.get(r.key, ""), tuple(files.get(r.key, ())), out) for r in results
    ]
    records = (
        Path(os.path.relpath(provenance["results"], out)).as_posix()
        if "results" in provenance
        else ""
    )
    summaries = overview.summaries(results, papers)
    return environment.get_template("index.html.j2").render(
        summaries=summaries,
        printed=any(summary.published for summary in summaries),
        verdicts=overview.verdict_names(),
        kinds=[str(kind) for kind in Kind],
        operating=provenance.get("operating", ()),
        heat=overview.heat_map(results),
        papers=[
            (paper, papers.get(paper, paper), [s for s in sections if s.result.paper == paper])
            for paper in dict.fromkeys(r.paper for r in results)
        ],
        provenance={k: v for k, v in provenance.items() if k not in APART},
        records=records,
        measured=provenance.get("measured", frozenset()),
        rule=RULE,
        paired=numbers.PAIRED,
    )


def section(result: Result, command: str, files: tuple[str, ...], out: Path) -> Section:
    """Everything the page shows of one artefact."""
    claims = tuple(render.claim(c, result.paper) for c in result.claims)
    if isinstance(result, Figure):
        return Section(result, command, files, image=image(out, files), claims=claims)
    if not isinstance(result, Table):
        return Section(result, command, files, claims=claims)
    best = {side: numbers.marks(result, side) for side in ("ours", "published")}
    cells = [
        (
            row,
            row in result.layout.aside,
            tuple(_cell(result, row, c, best) for c in result.layout.columns),
        )
        for row in result.layout.rows
    ]
    digits = {c.key: c.digits for c in result.layout.columns}
    floors = {
        key: numbers.plain(value, digits[key]) for key, value in numbers.floors(result).items()
    }
    everything = tuple(_line(cell, result) for _, cell in result.frame.iterrows())
    return Section(
        result,
        command,
        files,
        "",
        result.layout.columns,
        tuple(cells),
        floors,
        everything,
        tuple(tables.remarks(result.frame, result.layout.columns)),
        claims,
    )


def _cell(
    table: Table, row: str, column: Column, best: dict[str, dict[tuple[str, str], numbers.Mark]]
) -> TableCell | None:
    found = table.cell(row, column.key)
    if found is None:
        return None
    key = (row, column.key)
    return TableCell(
        numbers.spread(found["ours"], found["std"], column.digits),
        numbers.published(found, column.digits) if found["source"] else "",
        numbers.gap(found, column.digits),
        found["verdict"] if isinstance(found["verdict"], str) else "",
        found["mark"],
        numbers.founded(found),
        "; ".join(filter(None, (found["reason"], found["basis"]))),
        best["ours"].get(key, ""),
        best["published"].get(key, ""),
        _order(found["ours"]),
    )


def _line(cell: pd.Series, table: Table) -> NumberLine:
    column = next(c for c in table.layout.columns if c.key == cell["column"])
    return NumberLine(
        cell["row"],
        column.name,
        numbers.published(cell, column.digits) if cell["source"] else "",
        numbers.ours(cell, column.digits, seeds=False),
        int(cell["seeds"]),
        numbers.between(cell["low"], cell["high"], column.digits),
        numbers.gap(cell, column.digits),
        cell["verdict"] if isinstance(cell["verdict"], str) else "",
        cell["mark"],
        cell["kind"],
        "; ".join(part for part in (cell["basis"], cell["tier"]) if isinstance(part, str) and part),
        cell["reason"],
        cell["source"],
        tuple(cell["ids"]),
        tuple(_order(cell[name]) for name in ("published", "ours", "seeds", "difference")),
    )


def _order(value: float) -> float:
    """A number to sort by; what is absent sorts last from the top."""
    return round(float(value), 6) if isfinite(value) else -1e300


def image(out: Path, files: Sequence[str]) -> str:
    """A figure's picture as a data address."""
    picture = next(out / file for file in files if file.endswith(".png"))
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode("ascii")


def emphasise(text: str) -> Markup:
    """Words between asterisks in italics."""
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(text))))


def facts(value: Any) -> Markup:
    """Nested provenance as definition lists."""
    if isinstance(value, Mapping):
        items = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{facts(part)}</dd></div>"
            for name, part in value.items()
        )
        return Markup(f"<dl>{items}</dl>")
    if isinstance(value, list | tuple):
        return Markup(", ".join(str(facts(part)) for part in value))
    return escape("unknown" if value is None else value)
