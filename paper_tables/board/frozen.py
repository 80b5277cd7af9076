"""What the frozen protocol says, before its addenda: in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from repfl.paper_tables.board import analysis
from repfl.paper_tables.board.view import ADDED, APART, WIDER, View
from repfl.paper_tables.board.words import ordinal, rows

WITH = ", with the added rows"


def added_rows(view: View) -> list[str]:
    """Return the rows that are not of the frozen protocol."""
    return [name for name in view.methods if name in ADDED]


def leaders(view: View) -> Iterator[str]:
    """Who leads by the frozen protocol, and where the rows are that its addenda replaced."""
    for key, label in view.spoken.items():
        here = analysis.standing(view.frozen, key)
        order = here.means.dropna().sort_values(ascending=False)
        if len(order) < 2 or not isfinite(here.apart):
            continue
        leader, *near = analysis.near_leader(here, order)
        places = order.rank(ascending=False, method="min").astype(int)
        later = ", ".join(f"{name} is {ordinal(places[name])}" for name in APART if name in places)
        yield (
            f"{label}, frozen protocol: {leader} has the highest accuracy of {len(order)} methods,"
            f" {order.iloc[0]:.2f} %. {rows(near) or 'No other row'} cannot be told apart from it"
            f" (Tukey's test: differences below {here.apart:.1f} points may be chance)."
            + (f" {later}." if later else "")
        )


def addenda(added: Sequence[str]) -> str:
    """Say which rows are not of the frozen protocol, and what some of them got."""
    wider = [name for name in added if name in WIDER]
    return (
        f"The addenda, written when the first recipe had run, add {rows(added)}."
        + (
            f" {rows(wider)} also search a learning rate of fine-tuning: one dimension more than"
            " these methods had, with the same five trials."
            if wider
            else ""
        )
        + " All other sentences, tables and figures include the added rows."
    )
