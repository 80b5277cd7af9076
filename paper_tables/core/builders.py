"""The forms that most artefacts have. A paper's modules say which cells, labels and printed numbers
go into one, and what is truly the paper's own.
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
    """Return printed numbers beside ours, with verdicts, floor and orders.

    `number` is what the csv calls the table, `places` tells where in it each column stands; both
    are not needed if the long `frame` is given. If rows are `compared`, there are statistics over
    all columns, of the `scored` part of the frame. Orders are among the `competing` rows.
    """
    sought: frozenset[tuple[str, ...]] = frozenset()
    if frame is None:
        rows = tables.with_guests(rows, evidence)
        at = places or {column.key: Place("", "") for column in columns}
        frame = tables.accuracy_frame(evidence, number, rows, columns, at, printing)
        sought = tables.looked_up(number, rows, columns, at)
    full = evidence.scale == "paper"
    told = frame[frame["row"].isin(competing)] if competing else frame
    ranked = frame if scored is None else scored
    return Table(
        *key,
        title,
        caption or captions.caption(evidence, what),
        evidence.scale,
        (*notes, *discriminating(frame, columns)),
        tuple(claims(frame)),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, columns, **layout),
        ranking.orderings(told, columns) if full else (),
        ranking.summary(evidence, ranked, rows) if compared else pd.DataFrame(),
        looked_up=sought,
        stamp=captions.stamp(evidence),
    )


TELLING = 0.1
"""A share of wrong pairs within the margin, above which a verdict hardly tells methods apart."""


def discriminating(frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    """Return a note for each column whose methods lie so close together that a verdict says little
    about which of them was run.
    """
    lines = verdict.discrimination(frame).to_dict("index")
    told = ((column.name, lines[column.key]) for column in columns if column.key in lines)
    return [
        f"{name}: of {each['pairs']} pairs of ours of one method and the printed number of another,"
        f" {each['within the margin']} lie within one point, and {each['reproduced']} would be"
        " called reproduced. A verdict says little there about which method was run."
        for name, each in told
        if each["within the margin"] > TELLING * each["pairs"]
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
    """Return a figure from how it is drawn and its data. `what` begins its caption, which also says
    what accuracy is if the figure shows any.
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
    """Return the reason why there is no figure."""
    why = f"{captions.caption(evidence, what, accuracy=False)} No figure: {reason}."
    return Absent(*key, title, why, evidence.scale, claims=tuple(claims))


CURVES = ["column", "label", "round", "mean", "low", "high", "seeds"]


def accuracy_curves(
    evidence: Evidence, labels: Sequence[str], columns: Sequence[str], name: str
) -> pd.DataFrame:
    """Return mean, lowest and highest value over seeds per round, in percent, of one stored curve
    such as `pre_agg/mean`.
    """
    values = run_curves(evidence, labels, columns, name)
    if values.empty:
        return pd.DataFrame(columns=CURVES)
    lines = values.groupby(["column", "label", "round"])["value"].agg(["mean", "min", "max"])
    seeds = values.groupby(["column", "label"])["id"].nunique().rename("seeds")
    known = lines.rename(columns={"min": "low", "max": "high"}).reset_index()
    known = known.merge(seeds.reset_index(), on=["column", "label"])
    order = pd.DataFrame(
        [(c, label) for c in columns for label in labels], columns=["column", "label"]
    )
    return order.merge(known, on=["column", "label"])[CURVES]


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
    highest seed. `own` is the paper's own method; `reported` are values by column and row, shown at
    the right of their panel unless the data are digits.
    """
    panels = titles(evidence, {column.key: column.name for column in columns})
    data = accuracy_curves(evidence, rows, list(panels), curve) if data is None else data
    printed = {} if evidence.scale == "smoke" else dict(reported or {})
    if printed:
        what += " Diamonds at the right: the reported values, of full runs."
    return figure(
        evidence,
        key,
        title,
        what,
        lambda sheet: plots.curve_panels(sheet, data, panels, rows, own, printed),
        data,
        notes=(*notes, *missing(evidence, rows, list(panels))),
        claims=claims,
        accuracy=True,
        **options,
    )


MANY = 6
"""Lines that are named one by one in a note."""


def missing(evidence: Evidence, rows: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return one note per reason for which lines are absent or rest on fewer seeds."""
    planned, nothing = places(evidence), evidence.cells.iloc[:0]
    found: dict[str, list[str]] = {}
    for column in columns:
        for row in rows:
            reason = why_missing(planned.get((row, column), nothing), evidence.scale)
            if reason:
                found.setdefault(reason, []).append(f"{row} on {column}")
    total = len(rows) * len(columns)
    return tuple(f"{_named(lines, total)}: {reason}" for reason, lines in found.items())


def _named(lines: Sequence[str], total: int) -> str:
    if len(lines) == total:
        return "All lines"
    if len(lines) <= MANY:
        return ", ".join(lines)
    return f"{', '.join(lines[:4])} and {len(lines) - 4} other lines"


def titles(evidence: Evidence, names: Mapping[str, str]) -> dict[str, str]:
    """Return titles of panels, which say so if digits stand for a paper's data."""
    stand_in = evidence.scale == "smoke" and len(evidence.published)
    return {key: f"digits, for {name}" if stand_in else name for key, name in names.items()}


def at_scale(evidence: Evidence, **notes: str) -> tuple[str, ...]:
    """Return the note of the evidence's scale, if there is one."""
    return (notes[evidence.scale],) if evidence.scale in notes else ()
