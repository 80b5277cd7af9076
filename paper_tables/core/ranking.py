"""How methods rank: orders per column, average ranks, and paired differences over all columns."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from repfl.paper_tables.core.evidence import Evidence, decile, pick, scores
from repfl.paper_tables.core.result import Column, Ordering
from repfl.paper_tables.core.statistics import intervals, pairwise, rank_statistics
from repfl.paper_tables.core.statistics.seeds import paired
from repfl.paper_tables.core.tables import Row


def orderings(frame: pd.DataFrame, columns: Sequence[Column]) -> tuple[Ordering, ...]:
    """Return per column how our numbers rank the rows compared with the paper's, over the seeds
    that all rows have; only rows with both numbers count.
    """
    result, frame = [], paired(frame)
    for column in columns:
        both = frame[
            (frame["column"] == column.key) & frame["printed"].notna() & frame["ours"].notna()
        ]
        if len(both) < 2 or column.best is None:
            continue
        winners = [_winners(both, name, column.best) for name in ("printed", "ours")]
        tau = rank_statistics.kendall(list(both["printed"]), list(both["ours"]))
        result.append(Ordering(column.name, len(both), tau, *winners))
    return tuple(result)


def _winners(cells: pd.DataFrame, side: str, best: str) -> tuple[str, ...]:
    """Return the rows with the best number of a column."""
    values = cells[side].astype(float)
    first = values.max() if best == "high" else values.min()
    return tuple(cells.loc[values == first, "row"].astype(str))


def summary(evidence: Evidence, frame: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return per row over all columns: average ranks, the worst clients, and the paired difference
    to the row that ranks first, with its p value; empty for a single row.
    """
    labels = [row.label for row in rows if not row.aside]
    frame = frame[frame["row"].isin(labels) & frame["ours"].notna()]
    ranked = [row for row in rows if not row.aside and row.label in set(frame["row"])]
    if len(ranked) < 2:
        return pd.DataFrame()
    published, ours = (
        paired(frame).pivot(index="row", columns="column", values=side).astype(float)
        for side in ("printed", "ours")
    )
    ranks = rank_statistics.average_ranks(ours)
    means = ours.mean(axis="columns")  # decide between equal ranks
    order = pd.DataFrame({"rank": ranks, "mean": -means}).sort_values(["rank", "mean"])
    first = str(order.index[0])
    scored = pd.DataFrame({row.label: _scores(evidence, row) for row in ranked}).T
    comparison = pairwise.against_leader(scored, first)
    deciles = {}
    for row in ranked:
        done = pick(evidence, row=row.source or row.label, done=True)
        deciles[row.label] = intervals.spread([decile(cell) for _, cell in done.iterrows()]).mean
    table = {
        "average rank": ranks,
        "worst tenth of clients": pd.Series(deciles),
        f"minus {first}": comparison["difference"],
        "p (Games-Howell)": comparison["p"],
        "pairs": comparison["blocks"],
    }
    if evidence.scale == "paper" and published.notna().any(axis=None):
        table = {"average rank, published": rank_statistics.average_ranks(published), **table}
    summary_frame = pd.DataFrame(table).reindex([row.label for row in ranked]).rename_axis("row")
    return summary_frame.fillna({"pairs": 0})


def _scores(evidence: Evidence, row: Row) -> pd.Series:
    """Return the scores of a row's finished cells by (column, seed); a cell that is in two columns
    counts once.
    """
    done = pick(evidence, row=row.source or row.label, done=True).drop_duplicates("id")
    index = pd.MultiIndex.from_frame(done[["column", "seed"]])
    return pd.Series(scores(done, row.point, row.rule), index=index, dtype=float)
