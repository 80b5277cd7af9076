"""The board's tables: accuracy, clients, costs, and what tuning is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.analysis import MethodMeans
from repfl.paper_tables.board.view import ALONE, View
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.evidence import Evidence, tier, why_missing
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Table, TableLayout

PAPER = "board"
Value = tuple[float, float]
"""A number, and half of its 95 % interval, nan where it has none."""


def _values(here: MethodMeans, column: str) -> dict[tuple[str, str], Value]:
    """Return the means of methods, each with half of its interval."""
    both = zip(here.means.index, here.means, here.half, strict=True)
    return {(str(method), column): (float(mean), float(half)) for method, mean, half in both}


def table1(evidence: Evidence) -> Table:
    """Accuracy of every method at every recipe, tuned alike."""
    view = View(evidence)
    columns = view.under("accuracy")
    found: dict[tuple[str, str], Value] = {}
    for key in view.columns:
        here = view.method_means(key)
        found |= _values(here, f"{key}/accuracy")
    return _table(
        view,
        "table1",
        "Accuracy, tuned alike",
        "Mean accuracy over clients and studies on test images, of the trial that validation chose."
        " Intervals do not include effects that are common to all methods of a study.",
        columns,
        found,
        findings.accuracy,
        notes=findings.of(view, findings.apart),
        summary=_summary(view),
        tested=TESTED,
    )


def table2(evidence: Evidence) -> Table:
    """What clients have of it: the worst off, those whom it harms, those who join late."""
    view = View(evidence)
    columns = [
        view.best(column)
        for key, label in view.columns.items()
        for column in (
            Column(f"{key}/decile", "tenth percentile", label),
            Column(f"{key}/harm", "harmed", label, "% of clients", 1, "low"),
            Column(f"{key}/loss", "they lose", label, "points", 1, "low"),
            Column(f"{key}/newcomers", "newcomers", label),
        )
    ]
    found: dict[tuple[str, str], Value] = {}
    for key in view.columns:
        for name in ("decile", "harm", "newcomers"):
            here = view.method_means(key, name)
            found |= _values(here, f"{key}/{name}")
        losses = analysis.mean_loss(view.shown_scores, key)
        found |= {(str(method), f"{key}/loss"): (loss, nan) for method, loss in losses.items()}
    return _table(
        view,
        "table2",
        "Clients: the worst off, the harmed, the newcomers",
        "Tenth percentile: accuracy that nine of ten clients exceed. Harmed: clients below their"
        f" own {ALONE} model, tuned alike in the same study, and how much they lose on average."
        " Newcomers: mean accuracy of clients that join after the last round, after ten batches of"
        " their own, which leave a third of the initial statistics in their normalisation.",
        columns,
        found,
        findings.clients,
    )


COSTS = (
    Column("traffic", "sent and received per round", "", "KiB per client", 0, "low"),
    Column("work", "multiply-adds per round", "", "millions per client", 1, "low"),
    Column("seconds", "processor", "", "s per run", 0, best=None),
    Column("memory", "peak memory", "", "MiB", 0, best=None),
    Column("rounds", "rounds to 90 % of its best", "", "rounds", 1, "low"),
    Column("spread", "spread over trials", "", "points", 1, "low"),
)


def table3(evidence: Evidence) -> Table:
    """What it costs, as means over recipes and studies."""
    view = View(evidence)
    means = {
        name: view.mean(name, view.shown_scores)
        for name in ("traffic", "work", "seconds", "memory", "rounds")
    }
    means["spread"] = view.over(analysis.spread_of_trials(view.trials))
    found = {
        (str(method), name): (float(value), nan)
        for name, values in means.items()
        for method, value in values.items()
    }
    return _table(
        view,
        "table3",
        "Costs",
        f"Means over studies, {' and '.join(view.shown.values())}. Multiply-adds: of convolutions"
        " and matrix products in a round of training, forward and backward, counted while it ran"
        " and averaged over the run; what a method trains before it is scored is not in them."
        " Processor seconds and memory were taken on machines of several kinds, some of them busy:"
        " differences below a half mean nothing. Rounds are scored in fives. Spread: from the worst"
        " to the best of the trials that came to an end, in validation accuracy.",
        COSTS,
        found,
        findings.costs,
    )


def table4(evidence: Evidence) -> Table:
    """What tuning is worth: tuned alike beside the values that papers print."""
    view = View(evidence)
    columns: list[Column] = []
    found: dict[tuple[str, str], Value] = {}
    for key, label in view.columns.items():
        columns += [
            view.best(Column(f"{key}/tuned", "tuned", label)),
            view.best(Column(f"{key}/printed", "as printed", label)),
            Column(f"{key}/gain", "gain", label, "points", best=None),
        ]
        for name, scores in (("tuned", view.shown_scores), ("printed", view.printed)):
            means = analysis.method_means(scores, key).means
            found |= {(str(method), f"{key}/{name}"): (mean, nan) for method, mean in means.items()}
        gains = analysis.gains(view.shown_scores, view.printed, key)
        found |= _values(gains, f"{key}/gain")
    return _table(
        view,
        "table4",
        "What tuning is worth",
        "Tuned: as in Table 1. As printed: one run per study with the values of the method's own"
        " paper and a common learning rate of 0.05. Gain: their paired difference.",
        columns,
        found,
        findings.tuning,
    )


# -- from numbers to a table -----------------------------------------------------------------------


def _table(
    view: View,
    name: str,
    title: str,
    what: str,
    columns: Sequence[Column],
    found: dict[tuple[str, str], Value],
    says: Callable[[View], Iterable[str]],
    *,
    notes: tuple[str, ...] = (),
    **options: Any,
) -> Table:
    evidence = view.evidence
    rows = (*view.methods, *view.apart)
    lines = [_line(view, method, column, found) for method in rows for column in columns]
    frame = pd.DataFrame(lines, columns=list(CELL_FIELDS))
    return Table(
        PAPER,
        name,
        title,
        view.caption(what),
        evidence.scale,
        findings=findings.of(view, says),
        notes=(*notes, *_missing(view)),
        ids=tables.done_ids(evidence),
        frame=frame,
        layout=TableLayout(rows, tuple(columns), floor=False, aside=view.apart),
        **options,
    )


def _line(
    view: View, method: str, column: Column, found: dict[tuple[str, str], Value]
) -> dict[str, Any]:
    """One place of a table, as all tables of the suite have it."""
    value, half = found.get((method, column.key), (nan, nan))
    recipe = column.key.partition("/")[0]
    cells = view.of(method, recipe)
    done = cells[cells["status"] == "done"]
    return {
        **tables.NO_VERDICT,
        **tables.printed_fields(None),
        "row": method,
        "column": column.key,
        "ours": value,
        "std": nan,
        "seeds": done["seed"].nunique(),
        "low": value - half,
        "high": value + half,
        "df": nan,
        "tier": tier(cells),
        "reason": why_missing(cells, view.evidence.scale),
        "scale": view.evidence.scale,
        "floor": nan,
        "method": str(cells["method"].iloc[0]) if len(cells) else "",
        "ids": tuple(done["id"]),
    }


TESTED = (
    "Over the recipes in which every method has made its last trial. The difference to the method"
    " that ranks first is paired by recipe and study; p is the probability that some two of as many"
    " equal methods differ by this much (Games-Howell, with noise estimated per method)."
)


def _summary(view: View) -> pd.DataFrame:
    """Per method: its average rank, and its paired difference to the method that ranks first."""
    leader, told = analysis.overall(view.compared)
    if not leader:
        return pd.DataFrame()
    names = {"rank": "average rank", "difference": f"minus {leader}", "p": "p (Games-Howell)"}
    return (
        told[list(names)]
        .rename(columns=names)
        .reindex([method for method in view.methods if method in told.index])
    )


def _missing(view: View) -> list[str]:
    """Studies that have no winner yet, and trials that diverged."""
    trials = view.trials
    open_ = trials[trials["status"] == "missing"]
    fell = trials[trials["status"].isin(["diverged", "failed"])]
    notes = []
    if len(open_):
        notes.append(
            f"{len(open_):,} of {len(trials):,} trials are still to be made; a study has no winner"
            " before its last trial."
        )
    if len(fell):
        told = fell.groupby("method").size()
        words = ", ".join(f"{method} {count}" for method, count in told.items())
        notes.append(f"Trials that diverged or failed, and so lost: {words}.")
    return notes
