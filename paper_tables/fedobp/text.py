"""Sentences of the paper that state numbers: found in the published csv, and held against
tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import nan

import pandas as pd

from repfl.paper_tables.core.claims import wide
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.core.verdict import MARGIN

PRINTED_SLACK = 0.0051
"""Two numbers rounded to two decimals differ by a third that is off by no more than this from a
rounded one.
"""
Check = Callable[[pd.DataFrame, float], tuple[bool, str]]
"""From a table (rows against columns) and how far numbers may lie apart, to whether a sentence
holds and the numbers that say so.
"""


def told(evidence: Evidence, section: str, **where: str) -> pd.DataFrame:
    """The rows of a section of the text, such as `V-B`, narrowed by data set, setting, method or
    metric.
    """
    rows = evidence.published
    keep = rows["table"] == f"text {section}"
    for name, value in where.items():
        keep &= rows[name] == value
    return rows[keep]


def number(rows: pd.DataFrame) -> float:
    """The first number of some rows; NaN where there is none."""
    return float(rows["value"].iloc[0]) if len(rows) else nan


def claim(
    text: str, rows: pd.DataFrame, holds: bool | None, detail: str, printed: bool | None = None
) -> Claim:
    """A claim that accounts for rows of the text."""
    return Claim(text, holds, detail, printed, tuple(rows["source"]))


def weigh(
    frame: pd.DataFrame, rows: pd.DataFrame, text: str, check: Check, *, quantity: bool = True
) -> Claim:
    """A sentence held against a part of a table, in print and in ours; a stated number can only be
    met at the paper scale.
    """
    frame = frame[frame["source"] != ""]
    printed, said = _try(check, frame, "published", PRINTED_SLACK)
    missing = int(frame["ours"].isna().sum())
    scale = str(frame["scale"].iloc[0]) if len(frame) else "?"
    in_print = f"; printed: {said}" if said else ""
    if missing or frame.empty:
        return claim(
            text,
            rows,
            None,
            f"{missing} of {len(frame)} numbers are missing at the {scale} scale{in_print}",
            printed,
        )
    holds, found = _try(check, frame, "ours", MARGIN)
    if quantity and scale != "paper":
        holds = None
    return claim(text, rows, holds, f"ours at the {scale} scale: {found}{in_print}", printed)


def _try(check: Check, frame: pd.DataFrame, side: str, slack: float) -> tuple[bool | None, str]:
    try:
        return check(wide(frame, side), slack)
    except (KeyError, ValueError, IndexError):
        return None, "not enough numbers"


def also(first: Claim, rows: pd.DataFrame) -> Claim:
    """The same claim, accounting for further rows."""
    return replace(first, sources=(*first.sources, *rows["source"]))
