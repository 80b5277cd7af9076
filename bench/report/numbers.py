"""Numbers as readers see them, and which of them stand out."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Literal

import pandas as pd

from paper_tables.core.result import Table
from paper_tables.core.verdict import Verdict

MINUS = "\N{MINUS SIGN}"
BLANK = "\N{EN DASH}"
Mark = Literal["best", "second", ""]


def plain(value: float, digits: int = 2) -> str:
    """A number with fixed decimals; a dash where there is none."""
    if not isfinite(value):
        return BLANK
    text = f"{value:.{digits}f}"
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign."""
    text = plain(value, digits)
    return f"+{text}" if isfinite(value) and float(f"{value:.{digits}f}") > 0 else text


def spread(value: float, std: float, digits: int = 2) -> str:
    """Mean and deviation."""
    return plain(value, digits) + (f" ± {plain(std, digits)}" if isfinite(value) and isfinite(std) else "")


def published(cell: pd.Series, digits: int) -> str:
    """The paper's number; what it prints instead where that is no number."""
    if not isfinite(cell["published"]):
        return str(cell["printed"]) or BLANK
    return spread(cell["published"], cell["published_std"], digits)


def ours(cell: pd.Series, digits: int, *, seeds: bool = True) -> str:
    """Our number with its deviation and how many seeds it rests on."""
    text = spread(cell["ours"], cell["std"], digits)
    return f"{text} ({int(cell['seeds'])})" if seeds and isfinite(cell["ours"]) else text


def judged(cell: pd.Series, digits: int) -> tuple[str, str]:
    """Difference with its interval, and verdict with its mark; both empty where the paper prints nothing."""
    if not isinstance(cell["verdict"], str):
        return "", ""
    return gap(cell, digits), " · ".join(filter(None, (cell["verdict"], cell["mark"])))


def gap(cell: pd.Series, digits: int) -> str:
    """The difference, and its interval where there is one; nothing where the two sides are not comparable."""
    if not isfinite(cell["difference"]):
        return ""
    return signed(cell["difference"], digits) + between(cell["gap_low"], cell["gap_high"], digits, " [{}, {}]")


def between(low: float, high: float, digits: int, form: str = "{} to {}") -> str:
    """An interval; nothing where there is none."""
    return form.format(plain(low, digits), plain(high, digits)) if isfinite(low) and isfinite(high) else ""


def marks(table: Table, side: Literal["ours", "published"]) -> dict[tuple[str, str], Mark]:
    """The best and the second number of every column, at the printed precision; ties share their place."""
    found: dict[tuple[str, str], Mark] = {}
    ranked = {column.key: column for column in table.layout.columns if column.best}
    competing = table.frame.loc[~table.frame["row"].isin(table.layout.aside) & table.frame["column"].isin(ranked), ["row", "column", side]]
    for key, cells in competing.dropna().groupby("column", sort=False):
        column = ranked[str(key)]
        values = cells[side].astype(float).round(column.digits)
        places = sorted(set(values), reverse=column.best == "high")[:2]
        names: tuple[Mark, Mark] = ("best", "second")
        for row, value in zip(cells["row"], values, strict=True):
            if value in places and len(places) > 1:
                found[str(row), column.key] = names[places.index(value)]
    return found


def floors(table: Table) -> dict[str, float]:
    """The majority-class floor of every column that has one."""
    grouped = table.frame.groupby("column")["floor"].mean()
    return {str(key): float(value) for key, value in grouped.items() if isfinite(value)} if table.layout.floor else {}


def counts(verdicts: Iterable[object]) -> dict[str, int]:
    """How often each verdict was given, in the order of the rule."""
    given = [str(v) for v in verdicts if isinstance(v, str)]
    return {str(v): given.count(str(v)) for v in Verdict}
