"""The board's tables and figures, from the frames of `analysis`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import pandas as pd

from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.analysis import ADDED_COLUMNS, ALONE, REFERENCES, Board
from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.drawing import captions, plots
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Figure, Result, Table

PAPER = "board"
Values = dict[Column, pd.DataFrame | pd.Series]
"""By column of a table, values by row: means with half of their intervals, or values alone."""


def table1(evidence: Evidence) -> Table:
    """Return ranks and accuracies of every method, and differences to both references."""
    board = Board(evidence)
    leader, overall = analysis.overall(board.ranked(board.compared))
    frozen = analysis.mean_ranks(board.ranked(board.frozen)).rank(method="min")
    values: Values = {
        Column("rank", "all rows", "rank", "", 0, "low"): overall["place"],
        Column("rank/mean", "mean over studies", "rank", "", 1, "low"): overall["rank"],
        Column("rank/frozen", "frozen protocol", "rank", "", 0, "low"): frozen,
    }
    for key in ADDED_COLUMNS:
        if label := board.columns.get(key):
            means = analysis.means(analysis.of(key, board.compared), "value")["mean"]
            places = means.rank(ascending=False, method="min")
            values[Column(f"{key}/rank", label, "rank", "", 0, "low")] = places
    for key, label in board.columns.items():
        values[Column(f"{key}/accuracy", label, "accuracy")] = board.means(key)
    for name in REFERENCES:
        for key, label in board.columns.items():
            column = Column(f"{key}/minus {name}", label, f"minus {name}", "points", best=None)
            values[column] = analysis.differences(analysis.of(key, board.compared), name)
    made = _table(
        board,
        "table1",
        "Accuracy, tuned alike",
        "Mean accuracy over clients and studies on test images, of the trial that validation chose."
        " Intervals do not include effects that are common to all methods of a study."
        f" Ranks are over {_shown(board)} and their studies, those of the frozen"
        " protocol without the rows of its addenda; a recipe that came later has ranks of its own,"
        " by accuracy. The intervals of differences hold for all pairs of rows at once"
        " (Games-Howell): a row is significantly different from a reference if its interval does"
        " not include zero.",
        values,
        findings.accuracy,
    )
    names = {"rank": "average rank", "difference": f"minus {leader}", "p": "p (Games-Howell)"}
    order = [row for row in board.rows if row in overall.index]
    summary = overall[list(names)].rename(columns=names).reindex(order)
    return replace(made, summary=summary)


def table2(evidence: Evidence) -> Table:
    """Return results by client: the worst tenth, the harmed, the newcomers."""
    board = Board(evidence)
    values: Values = {}
    for key, label in board.columns.items():
        losses = analysis.mean_loss(analysis.of(key, board.runs))
        values |= {
            Column(f"{key}/decile", "tenth percentile", label): board.means(key, "decile"),
            Column(f"{key}/harm", "harmed", label, "% of clients", 1, "low"): board.means(
                key, "harm"
            ),
            Column(f"{key}/loss", "they lose", label, "points", 1, "low"): losses,
            Column(f"{key}/newcomers", "newcomers", label): board.means(key, "newcomers"),
        }
    return _table(
        board,
        "table2",
        "Clients: the worst off, the harmed, the newcomers",
        "Tenth percentile: accuracy that nine of ten clients exceed. Harmed: clients below their"
        f" own {ALONE} model, tuned alike in the same study, and how much they lose on average."
        " Newcomers: mean accuracy of clients that join after the last round, after ten batches of"
        " their own, which leave a third of the initial statistics in their normalisation.",
        values,
        findings.clients,
    )


def table3(evidence: Evidence) -> Table:
    """Return costs, as means over recipes and studies."""
    board = Board(evidence)
    columns = (
        Column("traffic", "sent and received per round", "", "KiB per client", 0, "low"),
        Column("work", "multiply-adds per round", "", "millions per client", 1, "low"),
        Column("seconds", "processor", "", "s per run", 0, best=None),
        Column("memory", "peak memory", "", "MiB", 0, best=None),
        Column("rounds", "rounds to 90 % of its best", "", "rounds", 1, "low"),
    )
    spread = Column("spread", "spread over trials", "", "points", 1, "low")
    values: Values = {column: board.mean(column.key, board.runs) for column in columns}
    values[spread] = board.over(analysis.spread_of_trials(board.trials))
    return _table(
        board,
        "table3",
        "Costs",
        f"Means over studies, {_shown(board)}. Multiply-adds: of convolutions"
        " and matrix products in a round of training, forward and backward, counted while it ran"
        " and averaged over the run; what a method trains before it is scored is not in them."
        " Processor seconds and memory were taken on machines of several kinds, some of them busy:"
        " differences below a half mean nothing. Rounds are scored in fives. Spread: from the worst"
        " to the best of the trials that came to an end, in validation accuracy.",
        values,
        findings.costs,
    )


def table4(evidence: Evidence) -> Table:
    """Return what tuning adds: tuned alike beside the values that papers print."""
    board = Board(evidence)
    values: Values = {}
    for key, label in board.columns.items():
        if key not in ADDED_COLUMNS:
            gain = Column(f"{key}/gain", "gain", label, "points", best=None)
            printed = analysis.means(analysis.of(key, board.printed), "value")
            values |= {
                Column(f"{key}/tuned", "tuned", label): board.means(key)["mean"],
                Column(f"{key}/printed", "as printed", label): printed["mean"],
                gain: analysis.gains(board.runs, board.printed, key),
            }
    return _table(
        board,
        "table4",
        "What tuning is worth",
        "Tuned: as in Table 1. As printed: one run per study with the values of the method's own"
        " paper and a common learning rate of 0.05. Gain: their paired difference.",
        values,
        findings.tuning,
    )


def _shown(board: Board) -> str:
    return findings.listed(list(board.shown.values()))


def _table(
    board: Board,
    name: str,
    title: str,
    what: str,
    values: Values,
    sentences: Callable[[Board], Iterable[str]],
) -> Table:
    """Return a table of means and their intervals; a column has no winner before all of its trials
    have been made.
    """
    rows = [tables.Row(row, published="") for row in board.rows]
    rows += [tables.Row(row, published="", aside=True) for row in board.replaced]
    labels, columns, cells = [row.label for row in rows], [], []
    for column, numbers in values.items():
        recipe, _, _ = column.key.partition("/")
        known = recipe not in board.columns or recipe in board.shown | board.complete
        columns.append(column if known else replace(column, best=None))
        recipes = [recipe] if recipe in board.columns else list(board.shown)
        planned = board.cells[board.cells["column"].isin(recipes)].groupby("row", sort=False)
        for row, runs in planned:
            cells.append(_cell(str(row), column, runs, numbers, board.evidence.scale))
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    made = forms.table(
        *(board.evidence, (PAPER, name), title, ""),
        rows=rows,
        columns=columns,
        frame=frame.sort_values("row", key=lambda row: row.map(labels.index), kind="stable"),
        notes=tuple(findings.notes(board)),
        caption=_caption(board, what),
        floor=False,
    )
    return replace(made, findings=findings.of(board, sentences), stamp="")


def _cell(
    row: str, column: Column, planned: pd.DataFrame, values: pd.DataFrame | pd.Series, scale: str
) -> dict[str, Any]:
    alone = isinstance(values, pd.Series)
    mean = (values if alone else values["mean"]).get(row, nan)
    half = nan if alone else values["half"].get(row, nan)
    return {
        **tables.NO_VERDICT,
        **tables.printed_fields(None),
        **our_numbers.gather(planned, scale, ()),
        "row": row,
        "column": column.key,
        "ours": mean,
        "low": mean - half,
        "high": mean + half,
        "by_seed": values["by_seed"].get(row, ()) if "by_seed" in values else (),
        "seeds": planned.loc[planned["status"] == "done", "seed"].nunique(),
    }


def _caption(board: Board, what: str) -> str:
    return captions.caption(board.evidence, what, floor=False, accuracy=False, size=_kind(board))


def _kind(board: Board) -> str:
    return "Full size" if board.evidence.scale == "paper" else "Self-test"


# -- figures ---------------------------------------------------------------------------------------


def fig1(evidence: Evidence) -> Figure:
    """Draw average ranks and accuracies, and which of them are not significantly different."""
    board = Board(evidence)
    scored = board.ranked(board.compared)
    _, ranks = analysis.overall(scored)
    parts = [_points("rank", ranks["rank"], ranks["near"])]
    for key in board.shown | board.complete:
        runs = analysis.of(key, board.compared)
        means, near = analysis.means(runs, "value"), analysis.near_first(runs)
        filled = near.reindex(means.index, fill_value=False)
        parts.append(_points(key, means["mean"], filled, half=means["half"].to_numpy()))
    data = pd.concat(parts, ignore_index=True)
    what = (
        f"Average ranks over {_shown(board)}, and accuracies with 95 %"
        " intervals. Filled points: accuracy not significantly different, at 5 %, from that of the"
        " panel's best method (Games-Howell; in the panel of ranks over its settings). Hollow"
        f" points: significantly different. Dashed line: {ALONE}."
    )
    critical = analysis.critical_rank_difference(scored)
    if isfinite(critical):
        what += (
            " Nemenyi's test, of the ranks alone, calls two methods different if their average"
            f" ranks are more than {critical:.1f} apart."
        )
    titles = {"rank": "average rank (1 is best)"}
    titles |= {key: f"{board.columns[key]}\naccuracy in %" for key in board.shown | board.complete}
    title, says = "Who leads, and by how much", findings.of(board, findings.leaders)
    marks = {
        "filled": "not significantly different from the best of the panel",
        "hollow": "significantly different",
    }
    return _figure(board, "fig1", title, what, data, titles, says, marks=marks, line=ALONE)


def fig2(evidence: Evidence) -> Figure:
    """Draw how many clients are better off with a method than with each reference."""
    board = Board(evidence)
    done = board.ranked(board.compared)
    clients = analysis.clients_of(evidence, done)
    references = [row for row in REFERENCES if row in set(clients["row"])]
    shares = {row: analysis.better_off(clients, row).dropna() for row in references}
    data = pd.concat([_points(*each, each[1] > 50) for each in shares.items()] or [_points("")])
    what = (
        "The share of clients that are better off with a method than with the one above the panel;"
        f" equal accuracies count half, every setting and study the same. Filled: more than half."
        f" Over {_shown(board)}."
    )
    titles = {row: f"better off than with {row}\n% of clients" for row in REFERENCES}
    title = "Which method leaves more clients better off?"
    says = findings.of(board, lambda _: findings.better_off(shares))
    marks = {"filled": "more than half of the clients", "hollow": "half or fewer"}
    return _figure(board, "fig2", title, what, data, titles, says, marks=marks)


def fig3(evidence: Evidence) -> Figure:
    """Draw accuracy, bytes and multiply-adds, and the methods that no other beats in both."""
    board = Board(evidence)
    value = board.mean("value").dropna()
    costs = {name: board.mean(name).reindex(value.index) for name in ("traffic", "work")}
    fronts = {name: analysis.pareto_front(value, cost) for name, cost in costs.items()}
    fronts["value"] = [row for front in fronts.values() for row in front]
    panels = {"value": value, **costs}
    parts = [_points(name, each, each.index.isin(fronts[name])) for name, each in panels.items()]
    what = (
        f"Accuracy, bytes and multiply-adds: {_shown(board)}, means over studies."
        " Filled in a panel of costs: no other method has a higher accuracy at this cost or less;"
        " costs within 1 % are taken for the same. What is trained before scoring, such as"
        " fine-tuning, is not counted."
    )
    titles = {
        "value": "accuracy in %",
        "traffic": "KiB per client and round\n(logarithmic beyond the lowest)",
        "work": "millions of multiply-adds\nper client and round",
    }
    data, says = pd.concat(parts, ignore_index=True), findings.of(board, findings.costs)
    marks = {
        "filled": "no other method has a higher accuracy at this cost or less",
        "hollow": "another one has",
    }
    options: dict[str, Any] = {"marks": marks, "logarithmic": ("traffic",)}
    return _figure(board, "fig3", "What accuracy costs", what, data, titles, says, **options)


def fig4(evidence: Evidence) -> Figure:
    """Draw all trials: how much the accuracy of a method depends on its tuning."""
    board = Board(evidence)
    made = board.trials[board.trials["status"] != "missing"]
    names = {"column": "panel", "validation": "value", "chosen": "filled"}
    fields = ["column", "row", "seed", "trial", "status", "validation", "chosen"]
    data = made[fields].rename(columns=names).astype({"filled": bool})
    what = (
        "Validation accuracy of every trial of every study, the best rows first. Filled: chosen; a"
        " cross at the left is a trial that diverged. A wide line is a method that must be tuned."
    )
    titles = {
        key: f"{label}\nvalidation accuracy in %"
        for key, label in board.columns.items()
        if key in set(data["panel"])
    }
    says = findings.of(board, findings.spreads)
    marks = {"filled": "chosen", "hollow": "other trial", "cross": "diverged"}
    return _figure(board, "fig4", "How much tuning matters", what, data, titles, says, marks=marks)


def _points(panel: str, value: Any = (), filled: Any = (), **more: Any) -> pd.DataFrame:
    """Return the points of a panel from values by row."""
    value = pd.Series(value, dtype=float)
    return pd.DataFrame(
        {"panel": panel, "row": value.index, "value": value.array, "filled": [*filled], **more}
    )


def _figure(
    board: Board,
    name: str,
    title: str,
    what: str,
    data: pd.DataFrame,
    titles: Mapping[str, str],
    says: Sequence[str] = (),
    **options: Any,
) -> Figure:
    """Return a figure of a point per row in every panel, the rows in the order of their ranks."""
    shown = set(data["row"])
    order = [row for row in (*board.order, *board.replaced) if row in shown]
    caption = _caption(board, what)
    return forms.figure(
        *(board.evidence, (PAPER, name), title, what),
        lambda new_canvas: plots.dot_panels(new_canvas, data, order, titles, **options),
        data,
        caption=caption,
        alt=caption,
        stamp=captions.stamp(board.evidence, kind=_kind(board)),
        findings=tuple(says),
    )


ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    each.__name__: each for each in (table1, table2, table3, table4, fig1, fig2, fig3, fig4)
}
