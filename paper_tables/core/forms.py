"""The common forms of artefacts. A paper's modules supply cells, labels and printed numbers, and
whatever is specific to the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import ranking, tables
from repfl.paper_tables.core.drawing import captions, plots
from repfl.paper_tables.core.evidence import Evidence, places, why_missing
from repfl.paper_tables.core.result import Absent, Claim, Column, Figure, NewCanvas, Table
from repfl.paper_tables.core.statistics import verdict
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Place, Row

Key = tuple[str, str]
"""A paper and the name of its table or figure."""
Draw = Callable[[NewCanvas], Canvas]


def table(
    evidence: Evidence,
    key: Key,
    title: str,
    what: str,
    *,
    rows: Sequence[Row],
    columns: Sequence[Column],
    number: str = "",
    places: Mapping[str, Place] | None = None,
    printing: Printing | None = None,
    frame: pd.DataFrame | None = None,
    scored: pd.DataFrame | None = None,
    compared: bool = False,
    competing: Sequence[str] = (),
    notes: Sequence[str] = (),
    claims: Callable[[pd.DataFrame], Sequence[Claim]] = lambda _: (),
    caption: str = "",
    **layout: Any,
) -> Table:
    """Return a table of published numbers and ours, with verdicts, floor and orders.

    `number` is the table's name in the csv, `places` where in it each column is; both are not
    needed if the long `frame` is given. If rows are `compared`, there are statistics over all
    columns, of the `scored` part of the frame. Orders are among the `competing` rows.
    """
    requested: frozenset[tuple[str, ...]] = frozenset()
    if frame is None:
        rows = tables.with_further_rows(rows, evidence)
        places_by_column = places or {column.key: Place("", "") for column in columns}
        frame = tables.accuracy_frame(evidence, number, rows, columns, places_by_column, printing)
        requested = tables.requested_numbers(number, rows, columns, places_by_column)
    full = evidence.scale == "paper"
    competitors = frame[frame["row"].isin(competing)] if competing else frame
    ranked = frame if scored is None else scored
    return Table(
        *key,
        title,
        caption or captions.caption(evidence, what),
        evidence.scale,
        (*notes, *indistinct_columns(frame, columns)),
        tuple(claims(frame)),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, columns, **layout),
        ranking.orderings(competitors, columns) if full else (),
        ranking.summary(evidence, ranked, rows) if compared else pd.DataFrame(),
        requested_numbers=requested,
        stamp=captions.stamp(evidence),
    )


MAX_WRONG_SHARE = 0.1
"""Share of wrong pairs within the margin above which a verdict hardly distinguishes methods."""


def indistinct_columns(frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    """Return a note for each column whose methods are so close together that a verdict hardly shows
    which of them was run.
    """
    lines = verdict.discrimination(frame).to_dict("index")
    counts = ((column.name, lines[column.key]) for column in columns if column.key in lines)
    return [
        f"{name}: of {each['pairs']} pairs of ours of one method and the printed number of another,"
        f" {each['within the margin']} lie within one point, and {each['reproduced']} would be"
        " called reproduced. A verdict says little there about which method was run."
        for name, each in counts
        if each["within the margin"] > MAX_WRONG_SHARE * each["pairs"]
    ]


def figure(
    evidence: Evidence,
    key: Key,
    title: str,
    what: str,
    draw: Draw,
    data: pd.DataFrame,
    *,
    notes: Sequence[str] = (),
    claims: Sequence[Claim] = (),
    alt: str = "",
    accuracy: bool = False,
    caption: str = "",
    **options: Any,
) -> Figure:
    """Return a figure from its drawing function and its data. `what` begins its caption, which also
    defines accuracy if the figure shows any.
    """
    return Figure(
        *key,
        title,
        caption or captions.caption(evidence, what, floor=False, accuracy=accuracy),
        evidence.scale,
        tuple(notes),
        tuple(claims),
        tables.done_ids(evidence),
        draw=draw,
        data=data,
        alt=alt or what,
        **{"stamp": captions.stamp(evidence), **options},
    )


def absent(
    evidence: Evidence, key: Key, title: str, what: str, reason: str, claims: Sequence[Claim] = ()
) -> Absent:
    """Return the result for a figure that cannot be drawn, with the reason."""
    why = f"{captions.caption(evidence, what, accuracy=False)} No figure: {reason}."
    return Absent(*key, title, why, evidence.scale, claims=tuple(claims))


CURVES = ["column", "label", "round", "mean", "low", "high", "seeds"]


def accuracy_curves(
    evidence: Evidence, labels: Sequence[str], columns: Sequence[str], name: str
) -> pd.DataFrame:
    """Return mean, lowest and highest value over seeds per round, in percent, of one stored curve
    such as `pre_agg/mean`.
    """
    return mean_curves(run_curves(evidence, labels, columns, name), labels, columns)


def mean_curves(
    values: pd.DataFrame, labels: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Return the same from what `run_curves` returns."""
    values = values[values["label"].isin(labels)]
    if values.empty:
        return pd.DataFrame(columns=CURVES)
    lines = values.groupby(["column", "label", "round"])["value"].agg(["mean", "min", "max"])
    seeds = values.groupby(["column", "label"])["id"].nunique().rename("seeds")
    curves = lines.rename(columns={"min": "low", "max": "high"}).reset_index()
    curves = curves.merge(seeds.reset_index(), on=["column", "label"])
    order = pd.DataFrame(
        [(c, label) for c in columns for label in labels], columns=["column", "label"]
    )
    return order.merge(curves, on=["column", "label"])[CURVES]


def run_curves(
    evidence: Evidence, labels: Sequence[str], columns: Sequence[str], name: str
) -> pd.DataFrame:
    """Return one stored curve of every finished run, in percent: column, label, seed, round,
    value.
    """
    cells = evidence.cells
    shown = (cells["status"] == "done") & cells["row"].isin(labels) & cells["column"].isin(columns)
    done = cells.loc[shown, ["id", "row", "column", "seed"]].drop_duplicates()
    values = done.merge(evidence.rounds(list(done["id"]), name), on="id")
    return values.assign(value=100 * values["value"]).rename(columns={"row": "label"})


def by_round(
    evidence: Evidence,
    key: Key,
    title: str,
    what: str,
    *,
    rows: Sequence[str],
    columns: Sequence[Column],
    curve: str = "post_agg/mean",
    data: pd.DataFrame | None = None,
    own: str = "",
    reported: Mapping[tuple[str, str], float] | None = None,
    notes: Sequence[str] = (),
    claims: Sequence[Claim] = (),
    **options: Any,
) -> Figure:
    """Return accuracy by round: a panel per column, a line per row, bands from the lowest to the
    highest seed. `own` is the paper's own method; `reported` are values by column and row, drawn at
    the right of their panel; runs of another size stand beside no reported value.
    """
    panels = titles(evidence, {column.key: column.name for column in columns})
    data = accuracy_curves(evidence, rows, list(panels), curve) if data is None else data
    printed = dict(reported or {}) if evidence.scale == "paper" else {}
    if printed:
        what += " Diamonds at the right: the reported values."
    return figure(
        evidence,
        key,
        title,
        what,
        lambda new_canvas: plots.curve_panels(new_canvas, data, panels, rows, own, printed),
        data,
        notes=(*notes, *missing(evidence, rows, list(panels))),
        claims=claims,
        accuracy=True,
        **{"findings": leaders(evidence, data, panels), **options},
    )


def leaders(evidence: Evidence, data: pd.DataFrame, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return in a sentence which line ends highest in each panel; none for digits."""
    lines = data[data["column"].isin(list(names))]
    if evidence.scale == "smoke" or lines.empty:
        return ()
    ends = (
        lines.sort_values("round", kind="stable")
        .groupby(["column", "label"], as_index=False)
        .last()
    )
    tops = ends.loc[ends.groupby("column")["mean"].idxmax()].set_index("column")
    best = [
        f"{row['label']} on {names[key]} ({row['mean']:.1f} %)"
        for key, row in ((key, tops.loc[key]) for key in names if key in tops.index)
    ]
    runs = " (one run each)" if lines["seeds"].max() == 1 else ""
    return (f"Highest after the last round{runs}: {'; '.join(best)}.",)


MAX_NAMED_LINES = 6
"""Lines that a note names one by one."""


def missing(evidence: Evidence, rows: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return one note per reason why lines are absent or have fewer seeds."""
    planned, no_cells = places(evidence), evidence.cells.iloc[:0]
    by_reason: dict[str, list[str]] = {}
    for column in columns:
        for row in rows:
            reason = why_missing(planned.get((row, column), no_cells), evidence.scale)
            if reason:
                by_reason.setdefault(reason, []).append(f"{row} on {column}")
    total = len(rows) * len(columns)
    return tuple(f"{_named(lines, total)}: {reason}" for reason, lines in by_reason.items())


def _named(lines: Sequence[str], total: int) -> str:
    if len(lines) == total:
        return "All lines"
    if len(lines) <= MAX_NAMED_LINES:
        return ", ".join(lines)
    return f"{', '.join(lines[:4])} and {len(lines) - 4} other lines"


def titles(evidence: Evidence, names: Mapping[str, str]) -> dict[str, str]:
    """Return titles of panels, which say so if digits replace a paper's data."""
    stand_in = evidence.scale == "smoke" and len(evidence.published)
    return {key: f"digits, for {name}" if stand_in else name for key, name in names.items()}


def at_scale(evidence: Evidence, **notes: str) -> tuple[str, ...]:
    """Return the note for the evidence's scale, if there is one."""
    return (notes[evidence.scale],) if evidence.scale in notes else ()
