"""A table of accuracies with everything that belongs to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from repfl.paper_tables.core import captions, ranking, tables, verdict
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Claim, Column, Table
from repfl.paper_tables.core.tables import Row


def accuracy_table(
    evidence: Evidence,
    key: tuple[str, str],
    title: str,
    what: str,
    parts: tuple[pd.DataFrame, Sequence[Row], Sequence[Column]],
    *,
    against: str = "",
    notes: tuple[str, ...] = (),
    claims: tuple[Claim, ...] = (),
    competing: Sequence[str] = (),
    **layout: Any,
) -> Table:
    """The table of a paper and name `key`: its frame, rows and columns, its orders among the
    `competing` rows (none: all), and statistics over all columns `against` a row, if one is given.
    """
    frame, rows, columns = parts
    orders = ranking.orderings(frame[frame["row"].isin(competing)] if competing else frame, columns)
    full = evidence.scale == "paper"
    return Table(
        *key,
        title,
        captions.caption(evidence, what),
        evidence.scale,
        (*notes, *discriminating(frame, columns))
        if full or not orders
        else (ranking.another_order(orders), *notes),
        claims,
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, columns, **layout),
        orders if full else (),
        ranking.summary(evidence, frame, rows, against=against) if against else pd.DataFrame(),
    )


TELLING = 0.1
"""A share of wrong pairs within the margin, above which a verdict hardly tells methods apart."""


def discriminating(frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    """Return a note for each column whose methods lie so close together that a verdict says little
    about which of them was run.
    """
    lines = verdict.discrimination(frame).to_dict("index")
    told = ((column.name, lines[column.key]) for column in columns if column.key in lines)
    return [
        f"{name}: of {each['pairs']} pairs of ours of one method and the printed number of another,"
        f" {each['within the margin']} lie within one point, and {each['reproduced']} would be"
        " called reproduced. A verdict says little there about which method was run."
        for name, each in told
        if each["within the margin"] > TELLING * each["pairs"]
    ]
