"""From stored rounds to the lines of a figure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from paper_tables.core.evidence import Evidence, pick

FIELDS = ["column", "label", "round", "mean", "low", "high", "seeds"]


def accuracy_curves(evidence: Evidence, labels: Sequence[str], columns: Sequence[str], name: str) -> pd.DataFrame:
    """Mean, lowest and highest value over seeds per round, in percent, of one stored curve such as `pre_agg/mean`."""
    parts = []
    for column in columns:
        for label in labels:
            done = pick(evidence, row=label, column=column, done=True)
            kept = evidence.rounds(list(done["id"]), name)
            if kept.empty:
                continue
            values = 100 * kept.groupby("round")["value"].agg(["mean", "min", "max"])
            line = values.rename(columns={"min": "low", "max": "high"}).reset_index()
            parts.append(line.assign(column=column, label=label, seeds=kept["id"].nunique())[FIELDS])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=FIELDS)
