"""Sentences of a paper held against a table: in its own printed numbers, and in ours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from repfl.paper_tables.core.result import Claim

Check = Callable[[pd.DataFrame], tuple[bool, str]]
"""From a table (index: rows, columns: column keys) to whether the sentence holds, and the numbers
that say so.
"""


def wide(frame: pd.DataFrame, side: str) -> pd.DataFrame:
    """One side of a long table, `published` or `ours`, rows against columns."""
    return frame.pivot(index="row", columns="column", values=side).astype(float)


def numbers(table: pd.DataFrame, row: str) -> np.ndarray:
    """One row of a wide table."""
    return np.asarray(table.loc[row], dtype=float)


def compare(frame: pd.DataFrame, text: str, check: Check, *, complete: bool = True) -> Claim:
    """A claim checked on both sides; ours has no verdict while numbers that the paper prints are
    missing.
    """
    printed = frame[frame["source"] != ""]
    holds_printed, said = _try(check, wide(printed, "published"))
    missing = int(printed["ours"].isna().sum())
    if complete and missing:
        return Claim(text, None, f"{missing} of {len(printed)} numbers are missing", holds_printed)
    holds, found = _try(check, wide(printed, "ours"))
    detail = f"ours: {found}" + (f"; printed: {said}" if said else "")
    return Claim(text, holds, detail, holds_printed)


def _try(check: Check, table: pd.DataFrame) -> tuple[bool | None, str]:
    try:
        return check(table)
    except (KeyError, ValueError, IndexError):
        return None, "not enough numbers"


def count_wins(frame: pd.DataFrame, row: str, other: str, text: str, *, at_least: int) -> Claim:
    """The claim that a row beats another one in so many columns."""

    def check(table: pd.DataFrame) -> tuple[bool, str]:
        wins = int(np.sum(numbers(table, row) > numbers(table, other)))
        return wins >= at_least, f"{wins} of {table.shape[1]}"

    return compare(frame, text, check)
