"""The board's tables: accuracy, clients, costs, and what tuning is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.analysis import MethodMeans
from repfl.paper_tables.board.view import ADDED_COLUMNS, ALONE, View
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.evidence import Evidence, tier_of, why_missing
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Table, TableLayout

PAPER = "board"
Value = tuple[float, float]
"""A number, and half of its 95 % interval, NaN if it has none."""


def _values(stats: MethodMeans, column: str) -> dict[tuple[str, str], Value]:
    """Return the means of methods, each with half of its interval."""
    rows = zip(stats.means.index, stats.means, stats.half_widths, strict=True)
    return {(str(method), column): (float(mean), float(half)) for method, mean, half in rows}


def table1(evidence: Evidence) -> Table:
    """Return accuracies of every method and recipe, tuned alike."""
    view = View(evidence)
    columns = view.under("accuracy")
    values: dict[tuple[str, str], Value] = {}
    for key in view.columns:
        stats = view.method_means(key)
        values |= _values(stats, f"{key}/accuracy")
    return _table(
        view,
        "table1",
        "Accuracy, tuned alike",
        "Mean accuracy over clients and studies on test images, of the trial that validation chose."
        " Intervals do not include effects that are common to all methods of a study.",
        columns,
        values,
        findings.accuracy,
        notes=findings.of(view, findings.apart),
        summary=_summary(view),
        tested=TESTED,
    )


def table2(evidence: Evidence) -> Table:
    """Return results by client: the worst tenth, the harmed, the newcomers."""
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
    values: dict[tuple[str, str], Value] = {}
    for key in view.columns:
        for name in ("decile", "harm", "newcomers"):
            stats = view.method_means(key, name)
            values |= _values(stats, f"{key}/{name}")
        losses = analysis.mean_loss(view.shown_scores, key)
        values |= {(str(method), f"{key}/loss"): (loss, nan) for method, loss in losses.items()}
    return _table(
        view,
        "table2",
        "Clients: the worst off, the harmed, the newcomers",
        "Tenth percentile: accuracy that nine of ten clients exceed. Harmed: clients below their"
        f" own {ALONE} model, tuned alike in the same study, and how much they lose on average."
        " Newcomers: mean accuracy of clients that join after the last round, after ten batches of"
        " their own, which leave a third of the initial statistics in their normalisation.",
        columns,
        values,
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
    """Return costs, as means over recipes and studies."""
    view = View(evidence)
    means = {
        name: view.mean(name, view.shown_scores)
        for name in ("traffic", "work", "seconds", "memory", "rounds")
    }
    means["spread"] = view.over(analysis.spread_of_trials(view.trials))
    values = {
        (str(method), name): (float(value), nan)
        for name, by_method in means.items()
        for method, value in by_method.items()
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
        values,
        findings.costs,
        without=view.guests,
    )


def table4(evidence: Evidence) -> Table:
    """Return what tuning adds: tuned alike beside the values that papers print."""
    view = View(evidence)
    columns: list[Column] = []
    cells: dict[tuple[str, str], Value] = {}
    for key, label in view.columns.items():
        if key in ADDED_COLUMNS:
            continue
        columns += [
            view.best(Column(f"{key}/tuned", "tuned", label)),
            view.best(Column(f"{key}/printed", "as printed", label)),
            Column(f"{key}/gain", "gain", label, "points", best=None),
        ]
        for name, scores in (("tuned", view.shown_scores), ("printed", view.printed)):
            means = analysis.method_means(scores, key).means
            cells |= {(str(method), f"{key}/{name}"): (mean, nan) for method, mean in means.items()}
        gains = analysis.gains(view.shown_scores, view.printed, key)
        cells |= _values(gains, f"{key}/gain")
    return _table(
        view,
        "table4",
        "What tuning is worth",
        "Tuned: as in Table 1. As printed: one run per study with the values of the method's own"
        " paper and a common learning rate of 0.05. Gain: their paired difference.",
        columns,
        cells,
        findings.tuning,
        without=view.guests,
    )


# -- from numbers to a table -----------------------------------------------------------------------


def _table(
    view: View,
    name: str,
    title: str,
    what: str,
    columns: Sequence[Column],
    values: dict[tuple[str, str], Value],
    sentences: Callable[[View], Iterable[str]],
    *,
    notes: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    **options: Any,
) -> Table:
    evidence = view.evidence
    rows = tuple(name for name in (*view.methods, *view.apart) if name not in without)
    lines = [_line(view, method, column, values) for method in rows for column in columns]
    frame = pd.DataFrame(lines, columns=list(CELL_FIELDS))
    return Table(
        PAPER,
        name,
        title,
        view.caption(what),
        evidence.scale,
        findings=findings.of(view, sentences),
        notes=(*notes, *_missing(view)),
        ids=tables.done_ids(evidence),
        frame=frame,
        layout=TableLayout(rows, tuple(columns), floor=False, aside=view.apart),
        **options,
    )


def _line(
    view: View, method: str, column: Column, values: dict[tuple[str, str], Value]
) -> dict[str, Any]:
    """Return one cell of a table, with the fields of all tables of this suite."""
    value, half_width = values.get((method, column.key), (nan, nan))
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
        "low": value - half_width,
        "high": value + half_width,
        "tier": tier_of(cells),
        "reason": why_missing(cells, view.evidence.scale),
        "scale": view.evidence.scale,
        "floor": nan,
        "method": str(cells["method"].iloc[0]) if len(cells) else "",
        "runs": tuple(done["id"]),
    }


TESTED = (
    "Over the protocol's recipes in which every method has made its last trial. The difference to"
    " the method that ranks first is paired by recipe and study; p is the probability that some two"
    " of as many equal methods differ by this much (Games-Howell, with noise estimated per method)."
)


def _summary(view: View) -> pd.DataFrame:
    """Return per method its average rank, and its paired difference to the first one."""
    leader, comparison = analysis.overall(view.compared)
    if not leader:
        return pd.DataFrame()
    names = {"rank": "average rank", "difference": f"minus {leader}", "p": "p (Games-Howell)"}
    return (
        comparison[list(names)]
        .rename(columns=names)
        .reindex([method for method in view.methods if method in comparison.index])
    )


def _missing(view: View) -> list[str]:
    """Return notes on studies that have no winner yet, and on trials that diverged."""
    trials = view.trials
    open_ = trials[trials["status"] == "missing"]
    failed = trials[trials["status"].isin(["diverged", "failed"])]
    notes = []
    if len(open_):
        notes.append(
            f"{len(open_):,} of {len(trials):,} trials are still to be made; a study has no winner"
            " before its last trial."
        )
    if len(failed):
        counts = failed.groupby("method").size()
        words = ", ".join(f"{method} {count}" for method, count in counts.items())
        notes.append(f"Trials that diverged or failed, and so lost: {words}.")
    return notes
