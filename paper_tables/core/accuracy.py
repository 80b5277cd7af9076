"""A table of accuracies with everything that belongs to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from repfl.paper_tables.core import captions, ranking, tables
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
        notes if full or not orders else (ranking.another_order(orders), *notes),
        claims,
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, columns, **layout),
        orders if full else (),
        ranking.summary(evidence, frame, rows, against=against) if against else pd.DataFrame(),
    )
