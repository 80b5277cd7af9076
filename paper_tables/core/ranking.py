"""How methods rank: orders per column, average ranks, and paired differences over all columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import pairwise, statistics
from repfl.paper_tables.core.evidence import Evidence, decile, pick, scores
from repfl.paper_tables.core.result import Column, Ordering
from repfl.paper_tables.core.seeds import paired
from repfl.paper_tables.core.tables import Row


def orderings(frame: pd.DataFrame, columns: Sequence[Column]) -> tuple[Ordering, ...]:
    """Per column, whether our numbers rank the rows as the paper's do, over the seeds that all
    have; only rows that have both numbers count.
    """
    found, frame = [], paired(frame)
    for column in columns:
        both = frame[
            (frame["column"] == column.key) & frame["published"].notna() & frame["ours"].notna()
        ]
        if len(both) < 2 or column.best is None:
            continue
        winners = [_winners(both, name, column.best) for name in ("published", "ours")]
        tau = statistics.kendall(list(both["published"]), list(both["ours"]))
        found.append(Ordering(column.key, len(both), tau, *winners))
    return tuple(found)


def _winners(cells: pd.DataFrame, side: str, best: str) -> tuple[str, ...]:
    """The rows with the best number of a column."""
    values = cells[side].astype(float)
    first = values.max() if best == "high" else values.min()
    return tuple(cells.loc[values == first, "row"].astype(str))


def another_order(found: Sequence[Ordering]) -> str:
    """What a smaller scale says of the paper's order: nothing, and how far it is from it."""
    ordered = [each for each in found if each.tau is not None]
    taus = [each.tau for each in ordered if each.tau is not None]
    same = sum(each.same_winner for each in ordered)
    told = f"; Kendall's τ is {statistics.spread(taus).mean:.2f} on average" if taus else ""
    return (
        "Rows measured at the desk scale come in another order than in the paper. This says nothing"
        f" about the paper's order. The best row is the same in {same} of {len(ordered)}"
        f" columns{told}."
    )


P_VALUE, PAIRWISE = "p (paired, Holm)", "p (Games-Howell)"


def summary(
    evidence: Evidence,
    frame: pd.DataFrame,
    rows: Sequence[Row],
    against: str,
    *,
    chosen: bool = False,
) -> pd.DataFrame:
    """Per row over all columns: average ranks, interquartile mean, the worst clients, and the
    paired difference to one row, named beforehand or `chosen` for its scores.
    """
    ranked = [row for row in rows if not row.aside]
    labels = [r.label for r in ranked if r.label in set(frame["row"])]
    alike = paired(frame[frame["row"].isin(labels)])
    wide = {
        name: alike.pivot(index="row", columns="column", values=name).astype(float).reindex(labels)
        for name in ("published", "ours")
    }
    known = {row.label: _scores(evidence, row) for row in ranked if row.label in labels}
    lines: list[dict[str, Any]] = []
    for row in (r for r in ranked if r.label in labels):
        gap, p_value, pairs = statistics.paired_difference(
            known[row.label], known.get(against, pd.Series(dtype=float))
        )
        done = pick(evidence, row=row.source or row.label, done=True)
        lines.append(
            {
                "row": row.label,
                "interquartile mean": statistics.interquartile_mean(list(known[row.label])),
                "worst tenth of clients": (
                    statistics.spread([decile(c) for _, c in done.iterrows()]).mean
                ),
                f"minus {against}": nan if row.label == against else gap,
                P_VALUE: nan if row.label == against else p_value,
                "pairs": 0 if row.label == against else pairs,
            }
        )
    table = pd.DataFrame(lines).set_index("row") if lines else pd.DataFrame()
    if lines and chosen:
        table[P_VALUE] = pairwise.against_leader(pd.DataFrame(known).T, against)["p"]
        table = table.rename(columns={P_VALUE: PAIRWISE})
    elif lines:
        table[P_VALUE] = statistics.holm(list(table[P_VALUE]))
    for name in ("ours", "published") if evidence.scale == "paper" else ("ours",):
        if lines:
            table.insert(0, f"average rank, {name}", statistics.average_ranks(wide[name]))
    return table


def _scores(evidence: Evidence, row: Row) -> pd.Series:
    """The scores of a row's finished cells by (column, seed); a cell that stands in two columns
    counts once.
    """
    done = pick(evidence, row=row.source or row.label, done=True).drop_duplicates("id")
    index = pd.MultiIndex.from_frame(done[["column", "seed"]])
    return pd.Series(scores(done, row.point, row.rule), index=index, dtype=float)
