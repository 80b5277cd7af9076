"""Rows and columns of an artefact that a paper's page quotes, written from the measured values and
never typed.

An excerpt stands between a comment that says in TOML what to quote and `<!-- end of excerpt -->`:

    <!-- excerpt
    table = "table1"
    scale = "desk"
    corner = "FedPURIN is scored"
    [columns]
    "cifar10-dir0.1" = "CIFAR-10, α = 0.1"
    [rows]
    "FedPURIN, dense model" = "dense: as trained"
    -->

`[columns]` and `[rows]` choose and rename. Without `[rows]` every row that has a number is quoted;
`floor = true` adds the floor, and `printed = "in print"` puts what is printed beside each column,
under that heading. `seed = 1` quotes runs of this seed alone, so that rows of which some have more
seeds are compared on the same clients; `spread = true` adds deviations and how many runs there are.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from math import isfinite, nan
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from repfl.bench.errors import UserError, one_line, unknown
from repfl.bench.pages import committed
from repfl.bench.report import numbers
from repfl.paper_tables.core.result import Column, Table

PART = re.compile(r"(<!-- excerpt\n)(.*?)(\n-->\n)(.*?)(<!-- end of excerpt -->)", flags=re.DOTALL)
FLOOR = "always a client's most frequent class"


class Excerpt(BaseModel):
    """What a page quotes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str
    scale: str
    columns: dict[str, str]
    rows: dict[str, str] = {}
    corner: str = ""
    floor: bool = False
    printed: str = ""
    seed: int | None = None
    spread: bool = False


def renewed(text: str, paper: str) -> str:
    """A paper's page with all its excerpts written anew."""

    def written(match: re.Match[str]) -> str:
        try:
            excerpt = Excerpt(**tomllib.loads(match[2]))
        except (tomllib.TOMLDecodeError, ValidationError) as error:
            raise UserError(
                f"an excerpt in {paper}'s page cannot be read: {one_line(error)}"
            ) from None
        return (
            match[1]
            + match[2]
            + match[3]
            + quoted(excerpt, committed.table(paper, excerpt.table, excerpt.scale, excerpt.seed))
            + match[5]
        )

    return PART.sub(written, text)


def write(page: Path, paper: str) -> None:
    """Write the excerpts of a paper's page anew."""
    page.write_text(renewed(page.read_text(encoding="utf-8"), paper), encoding="utf-8")


def quoted(excerpt: Excerpt, table: Table) -> str:
    """The excerpt as Markdown."""
    known = {column.key: column for column in table.layout.columns}
    _check("column", excerpt.columns, known, table)
    _check("row", excerpt.rows, table.layout.rows, table)
    columns = [known[key] for key in excerpt.columns]
    chosen = excerpt.rows or {
        row: row
        for row in table.layout.rows
        if any(isfinite(_ours(table, row, c)) for c in columns)
    }
    heads = [head for name in excerpt.columns.values() for head in (name, excerpt.printed) if head]
    lines = [[excerpt.corner or table.layout.corner, *heads], ["---"] * (1 + len(heads))]
    for row, label in chosen.items():
        lines.append(
            [
                label,
                *_entries(
                    excerpt,
                    [(_told(excerpt, table, row, c), _printed(table, row, c)) for c in columns],
                ),
            ]
        )
    if excerpt.floor:
        floors = numbers.floors(table)
        lines.append(
            [
                FLOOR,
                *_entries(
                    excerpt,
                    [(numbers.plain(floors.get(c.key, nan), c.digits), "") for c in columns],
                ),
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _entries(excerpt: Excerpt, row: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line's entries: ours, each followed by what is printed if that is wanted."""
    for ours, printed in row:
        yield ours
        if excerpt.printed:
            yield printed or "–"


def _check(what: str, named: Iterable[str], known: Collection[str], table: Table) -> None:
    for name in named:
        if name not in known:
            raise unknown(what, name, known, f"an excerpt of {table.key}")


def _printed(table: Table, row: str, column: Column) -> str:
    cell = table.cell(row, column.key)
    return "" if cell is None else str(cell["printed"])


def _told(excerpt: Excerpt, table: Table, row: str, column: Column) -> str:
    """Our number, with what it rests on if that is wanted."""
    cell = table.cell(row, column.key)
    if excerpt.spread and cell is not None and isfinite(cell["ours"]):
        runs = int(cell["seeds"])
        told = numbers.spread(cell["ours"], cell["std"], column.digits)
        return f"{told} ({runs} {'run' if runs == 1 else 'runs'})"
    return numbers.plain(_ours(table, row, column), column.digits)


def _ours(table: Table, row: str, column: Column) -> float:
    cell = table.cell(row, column.key)
    return nan if cell is None else float(cell["ours"])
