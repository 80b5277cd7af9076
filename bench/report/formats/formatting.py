"""Numbers as readers see them, and which of them stand out."""

from __future__ import annotations

from collections.abc import Collection
from math import isfinite
from typing import Literal

from repfl.paper_tables.core.number_text import BLANK, plain, signed
from repfl.paper_tables.core.result import Ordering, Table
from repfl.paper_tables.core.statistics.seeds import common_floor, mixed
from repfl.paper_tables.core.statistics.verdict import EXACT

PLUS_MINUS = " ± "
MARKS = {"committed": "ᶜ", "stale": "ˢ", "desk": "ᵈ"}
"""Marks for the evidence behind a number."""
MEANING = {
    "committed": "computed before, and committed with the code",
    "stale": "stale: made by another version of engine, method or rule, or with other data",
    "desk": "reduced run: real data, but fewer rounds, clients or seeds, or a smaller model",
}
Mark = Literal["best", "second", ""]


def spread(value: float, std: float, digits: int = 2) -> str:
    """Return mean and standard deviation."""
    return plain(value, digits) + (
        f"{PLUS_MINUS}{plain(std, digits)}" if isfinite(value) and isfinite(std) else ""
    )


def legend(words: Collection[str]) -> str:
    """Return what the marks of a table mean; empty if there are none."""
    meanings = "; ".join(f"{MARKS[word]} {MEANING[word]}" for word in MARKS if word in words)
    return f"Marks beside our numbers: {meanings}." if meanings else ""


MIN_P_VALUE = 0.001
"""Smaller p-values are written as below it."""


def statistic(name: str, value: float) -> str:
    """Return a number of a table's statistics: p-values have a digit more, counts have none."""
    if name == "pairs":
        return str(int(value))
    if name.startswith("p ") and value < MIN_P_VALUE:
        return f"<{MIN_P_VALUE}"
    return plain(value, 3 if name.startswith("p ") else 2)


def between(low: float, high: float, digits: int, form: str = "{} to {}") -> str:
    """Return an interval; empty if there is none."""
    return (
        form.format(plain(low, digits), plain(high, digits))
        if isfinite(low) and isfinite(high)
        else ""
    )


def order(ordering: Ordering) -> tuple[str, ...]:
    """Return whether a column ranks the rows as the paper does, in texts."""
    tau = BLANK if ordering.tau is None else signed(ordering.tau)
    best = (", ".join(rows) for rows in (ordering.printed, ordering.ours))
    return (ordering.column, str(ordering.rows), tau, *best)


def marks(table: Table, side: Literal["ours", "printed"]) -> dict[tuple[str, str], Mark]:
    """Return the best and the second number of every column, at the printed precision; ties share a
    mark. Beside printed numbers, ours of a smaller scale are not comparable and get none. Ours over
    different seeds are not ranked: each seed may partition the data differently.
    """
    result: dict[tuple[str, str], Mark] = {}
    real = set(table.frame.loc[table.frame["ours"].notna(), "scale"])
    judged = (table.frame["source"] != "").any()
    if side == "ours" and judged and real - {"paper"}:
        return result
    ranked = {column.key: column for column in table.layout.columns if column.best}
    competing = table.frame.loc[
        ~table.frame["row"].isin(table.layout.aside) & table.frame["column"].isin(ranked),
        ["row", "column", side, "kind", "by_seed"],
    ]
    for key, cells in competing.dropna(subset=[side]).groupby("column", sort=False):
        trained = cells.loc[~cells["kind"].isin(EXACT), "by_seed"]
        if side == "ours" and mixed(trained):
            continue
        column = ranked[str(key)]
        values = cells[side].astype(float).round(column.digits)
        top = sorted(set(values), reverse=column.best == "high")[:2]
        names: tuple[Mark, Mark] = ("best", "second")
        for row, value in zip(cells["row"], values, strict=True):
            if value in top and len(top) > 1:
                result[str(row), column.key] = names[top.index(value)]
    return result


def floors(table: Table) -> dict[str, float]:
    """Return the majority-class baseline of every column over the seeds that all of its rows have,
    since each seed may partition the data differently.
    """
    grouped = table.frame.groupby("column") if table.layout.floor else ()
    aside = table.layout.aside
    by_column = {str(key): common_floor(cells, aside)[0] for key, cells in grouped}
    return {key: floor for key, floor in by_column.items() if isfinite(floor)}
