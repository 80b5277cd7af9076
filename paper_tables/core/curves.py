"""From stored rounds to the lines of a figure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from repfl.paper_tables.core.evidence import Evidence

FIELDS = ["column", "label", "round", "mean", "low", "high", "seeds"]


def accuracy_curves(
    evidence: Evidence, labels: Sequence[str], columns: Sequence[str], name: str
) -> pd.DataFrame:
    """Mean, lowest and highest value over seeds per round, in percent, of one stored curve such as
    `pre_agg/mean`.
    """
    cells = evidence.cells
    shown = (cells["status"] == "done") & cells["row"].isin(labels) & cells["column"].isin(columns)
    places = cells.loc[shown, ["id", "row", "column"]].drop_duplicates()
    values = places.merge(evidence.rounds(list(places["id"]), name), on="id")
    if values.empty:
        return pd.DataFrame(columns=FIELDS)
    lines = 100 * values.groupby(["column", "row", "round"])["value"].agg(["mean", "min", "max"])
    seeds = values.groupby(["column", "row"])["id"].nunique().rename("seeds")
    table = (
        lines.rename(columns={"min": "low", "max": "high"})
        .reset_index()
        .merge(seeds.reset_index(), on=["column", "row"])
    )
    order = pd.DataFrame(
        [(column, label) for column in columns for label in labels], columns=["column", "row"]
    )
    return order.merge(table, on=["column", "row"]).rename(columns={"row": "label"})[FIELDS]
