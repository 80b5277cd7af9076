"""The forms that most artefacts have. A paper's modules say which cells, labels and printed numbers
go into one, and what is truly the paper's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, ranking, tables, verdict
from repfl.paper_tables.core.claims import counted
from repfl.paper_tables.core.evidence import Arrays, Evidence, places, why_missing
from repfl.paper_tables.core.result import Absent, Claim, Column, Figure, Sheet, Table
from repfl.paper_tables.core.tables import Place, Row
from repfl.paper_tables.core.verdict import Printing

Key = tuple[str, str]
"""A paper and the name of its table or figure."""
Draw = Callable[[Sheet], Canvas]


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
    if frame is None:
        rows = tables.with_guests(rows, evidence)
        at = places or {column.key: Place("", "") for column in columns}
        frame = tables.accuracy_frame(evidence, number, rows, columns, at, printing)
    orders = ranking.orderings(frame[frame["row"].isin(competing)] if competing else frame, columns)
    full = evidence.scale == "paper"
    ranked = frame if scored is None else scored
    return Table(
        *key,
        title,
        caption or captions.caption(evidence, what),
        evidence.scale,
        (*notes, *discriminating(frame, columns))
        if full or not orders
        else (ranking.another_order(orders), *notes),
        tuple(claims(frame)),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, columns, **layout),
        orders if full else (),
        ranking.summary(evidence, ranked, rows) if compared else pd.DataFrame(),
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
    cells = evidence.cells
    shown = (cells["status"] == "done") & cells["row"].isin(labels) & cells["column"].isin(columns)
    done = cells.loc[shown, ["id", "row", "column"]].drop_duplicates()
    values = done.merge(evidence.rounds(list(done["id"]), name), on="id")
    if values.empty:
        return pd.DataFrame(columns=CURVES)
    lines = 100 * values.groupby(["column", "row", "round"])["value"].agg(["mean", "min", "max"])
    seeds = values.groupby(["column", "row"])["id"].nunique().rename("seeds")
    known = lines.rename(columns={"min": "low", "max": "high"}).reset_index()
    known = known.merge(seeds.reset_index(), on=["column", "row"])
    order = pd.DataFrame(
        [(c, label) for c in columns for label in labels], columns=["column", "row"]
    )
    return order.merge(known, on=["column", "row"]).rename(columns={"row": "label"})[CURVES]


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
        lambda sheet: figures.curve_panels(sheet, data, panels, rows, own, printed),
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


def spans(arrays: Arrays) -> dict[str, slice]:
    """Return the part of every tensor in the flat arrays of a run."""
    fields = (arrays[f"layout/{field}"].tolist() for field in ("names", "starts", "stops"))
    return {str(name): slice(start, stop) for name, start, stop in zip(*fields, strict=True)}


Value = Callable[[pd.Series, pd.DataFrame], float]
"""From a finished cell and its curves to a number."""


def from_rounds(
    evidence: Evidence, planned: pd.DataFrame, value: Value, *names: str
) -> dict[str, Any]:
    """Return our side of a table cell whose numbers are read off stored curves of these names."""
    done = planned[planned["status"] == "done"]
    rounds = evidence.rounds(list(done["id"]), *names)
    values = [value(cell, rounds[rounds["id"] == cell["id"]]) for _, cell in done.iterrows()]
    return tables.gather(planned, evidence.scale, values)


def per_round(rounds: pd.DataFrame, *lines: str) -> pd.Series:
    """Return the bytes of some lines of the ledger by round, over all clients."""
    kept = rounds[rounds["name"].isin([f"traffic/{line}" for line in lines])]
    return kept.groupby("round")["value"].sum()


def roughness(line: pd.DataFrame) -> float:
    """Return the mean change of accuracy between scored rounds in the second half of a run, up or
    down, in points.
    """
    values = line.sort_values("round")["mean"].to_numpy(dtype=float)
    late = values[len(values) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else nan


def smoothest(
    data: pd.DataFrame,
    columns: Mapping[str, str],
    own: str,
    name: str,
    text: str,
    scale: str,
    without: Sequence[str] = (),
) -> Claim:
    """Return whether a method's curves move least from round to round; methods that are scored only
    now and then are left out.
    """
    parts, holds = [], []
    for key, label in columns.items():
        lines = data[(data["column"] == key) & ~data["label"].isin(list(without))]
        found = {str(label): roughness(line) for label, line in lines.groupby("label", sort=False)}
        mine = found.pop(own, nan)
        if mine == mine and found:
            rank = 1 + sum(value < mine for value in found.values())
            most = int(lines["seeds"].max())
            parts.append(
                f"{label} {mine:.2f} points a round, place {rank} of {len(found) + 1} from the"
                f" smoothest ({'1 seed' if most == 1 else f'{most} seeds'})"
            )
            holds.append(rank == 1)
    told = "; ".join(parts) or "no run has ended"
    return Claim(name, text, all(holds) if parts else None, told, scale)


def work(evidence: Evidence, row: str, column: str) -> float:
    """Return the multiply-adds of a client in a round of training, mean over finished runs; NaN of
    runs that counted none.
    """
    fields = ["work.multiply_adds", "work.clients", "work.rounds"]
    cells = evidence.cells
    mine = cells[(cells["row"] == row) & (cells["column"] == column) & (cells["status"] == "done")]
    if not set(fields) <= set(mine.columns):
        return nan
    total, clients, rounds = (mine[field].astype(float) for field in fields)
    return float((total / clients / rounds).mean())


def same_work(
    evidence: Evidence,
    name: str,
    text: str,
    pairs: Sequence[Key],
    columns: Mapping[str, str],
    most: float,
) -> Claim:
    """Return whether the first method of each pair takes no more than `most` times the operations
    of the second, in every column.
    """
    ratios = {
        f"{own} over {other}, {label}": work(evidence, own, key) / work(evidence, other, key)
        for key, label in columns.items()
        for own, other in pairs
    }
    known = {place: ratio for place, ratio in ratios.items() if ratio == ratio}
    return counted(
        name,
        text,
        evidence.scale,
        known or {"": nan},
        lambda ratio: ratio <= most,
        told="{:.3f}",
        ours_are="multiply-adds of a client and round, counted in training",
    )


def protocol(
    evidence: Evidence,
    cells: pd.DataFrame,
    name: str,
    text: str,
    used: Mapping[str, str],
    rows: pd.DataFrame,
) -> Claim:
    """Return whether cells are planned as the text says: published `rows` of these metrics against
    fields of the cells, exactly, at the paper scale.
    """
    stated = dict(zip(rows["metric"], rows["value"], strict=True))
    found = {
        metric: sorted({float(value) for value in cells[field]}) if field in cells else []
        for metric, field in used.items()
    }
    same = all(
        len(values) == 1 and abs(values[0] - stated[metric]) < EXACTLY
        for metric, values in found.items()
    )
    said = ", ".join(
        f"{metric.replace('_', ' ')} {'/'.join(f'{v:g}' for v in values)}"
        for metric, values in found.items()
    )
    return Claim(
        name,
        text,
        same if len(cells) and evidence.scale == "paper" else None,
        f"settings of the {evidence.scale} scale: {said}"
        if len(cells)
        else f"no cell at the {evidence.scale} scale",
        evidence.scale,
        sources=tuple(rows.loc[rows["metric"].isin(list(used)), "source"]),
        settings=True,
    )


EXACTLY = 1e-9
"""Settings are whole or short decimals, which floats hold no closer."""
