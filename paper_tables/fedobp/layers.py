"""Figure 6: in which layers personal parameters lie, round by round."""

from __future__ import annotations

from math import ceil, nan

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.evidence import Evidence, pick, why_missing
from repfl.paper_tables.core.result import Absent, Claim, Figure, Result, Sheet
from repfl.paper_tables.fedobp import text
from repfl.paper_tables.fedobp.curves import share_labels
from repfl.paper_tables.fedobp.settings import DATASETS, OURS, PAPER, PRINTED, key, smoke_note

NOTE = "note/personal"
FILES = "author files (Fig 6)"
LATE = 0.25
"""The part of a run that counts as late."""
ROLLING = 3
AXIS = (
    "Ours has one record per round, a mean over the participants, before they train. The paper's"
    " axis ends near 440 though training has 400 rounds: its files also hold one record per client"
    " at each of four evaluations, drawn at ten records per unit. README, 30."
)
FIXED = (
    "The authors' files divide by a fixed number of personal entries (44, 93, 61, 36, 6, 30, 30,"
    " 30), which is not that of Table II. The runs here use the quantiles that give these numbers."
    " README, 27."
)
DOTTED = (
    "Dotted: shares in the last 100 records of the authors' files, classifier and first"
    " convolution."
)


def fig6(evidence: Evidence) -> Result:
    """Shares of the layers in eight panels."""
    data, title = shares(evidence), "Figure 6: where personal parameters lie"
    caption = captions.caption(
        evidence,
        "Share of each layer in the personal parameters, against rounds, at Dir(0.1).",
        accuracy=False,
    )
    if data.empty:
        return Absent(
            PAPER,
            "fig6",
            title,
            f"{caption} No figure: {why_missing(evidence.cells, evidence.scale)}.",
            evidence.scale,
        )
    filed = files(evidence)
    return Figure(
        PAPER,
        "fig6",
        title,
        caption,
        evidence.scale,
        (AXIS, FIXED, DOTTED, *smoke_note(evidence.scale)),
        (*late_claims(evidence, data), fixed(evidence), axis(evidence), trend(evidence, data)),
        tables.done_ids(evidence),
        draw=lambda sheet: draw(sheet, data, filed),
        data=data,
        alt=(
            "Share of each layer in the personal parameters against rounds, one panel per data set."
        ),
    )


def shares(evidence: Evidence) -> pd.DataFrame:
    """Column, layer, round, count and share of all personal entries; rounds in which nobody has any
    are left out.
    """
    parts = []
    for short in DATASETS:
        done = pick(evidence, row=OURS, column=key(short), done=True)
        if done.empty:
            continue
        rounds = evidence.rounds([str(done["id"].iloc[0])], NOTE, f"{NOTE}/")
        notes = rounds[rounds["name"].str.startswith(f"{NOTE}/")]
        whole = rounds[rounds["name"] == NOTE].set_index("round")["value"]
        for name, line in notes.groupby("name", sort=False):
            count = line.set_index("round")["value"].sort_index()
            share = (count / whole).where(whole > 0).dropna()
            frame = pd.DataFrame(
                {
                    "round": share.index,
                    "count": count[share.index].to_numpy(),
                    "share": share.to_numpy(),
                }
            )
            parts.append(frame.assign(column=short, layer=str(name).rsplit("/", 1)[1]))
    fields = ["column", "layer", "round", "count", "share"]
    return pd.concat(parts, ignore_index=True)[fields] if parts else pd.DataFrame(columns=fields)


def filed_rows(evidence: Evidence, unit: str) -> pd.DataFrame:
    """What was read from the authors' files: shares (fraction) or numbers of personal entries
    (count).
    """
    return evidence.published[
        (evidence.published["table"] == FILES) & (evidence.published["unit"] == unit)
    ]


def files(evidence: Evidence) -> pd.DataFrame:
    """What the authors' files end with: data set against classifier and conv1."""
    rows = filed_rows(evidence, "fraction")
    wide = rows.assign(layer=rows["metric"].str.removeprefix("personalized_share_in_"))
    return wide.pivot(index="dataset", columns="layer", values="value")


def draw(sheet: Sheet, data: pd.DataFrame, filed: pd.DataFrame) -> Canvas:
    """One panel per data set; the last layer is the classifier."""
    canvas = sheet(12, 5.6)
    axes = figures.panels(canvas, len(DATASETS), 4)
    last = int(data["round"].max())
    for panel, (short, title) in zip(axes, DATASETS.items(), strict=True):
        lines = data[data["column"] == short]
        _layers(panel, lines)
        for layer, index in (("classifier", 0), ("conv1", 1)):
            value = filed[layer].get(PRINTED[short], nan) if layer in filed else nan
            label = "the authors' files" if index == 0 else None
            panel.axhline(
                value,
                color=figures.PALETTE[index],
                linestyle=(0, (1, 3)),
                linewidth=1.3,
                label=label,
            )
        if lines.empty:
            panel.text(
                0.5,
                0.5,
                "not run at this scale",
                transform=panel.transAxes,
                ha="center",
                color="0.35",
            )
        panel.set_title(title)
        panel.set_xlim(1, max(2, last))
        panel.set_ylim(-0.03, 1.03)
    share_labels(canvas, axes, columns=4)
    for panel in axes[::4]:
        panel.set_ylabel("Share of personal parameters")
    return canvas


def _layers(panel: Axes, lines: pd.DataFrame) -> None:
    """Lines of the layers, the classifier first, then from the input on."""
    names = list(dict.fromkeys(lines["layer"]))
    for index, name in enumerate([*names[-1:], *names[:-1]]):
        line = lines[lines["layer"] == name].sort_values("round")
        smooth = line["share"].rolling(ROLLING, min_periods=1).mean()
        panel.plot(
            line["round"],
            smooth,
            label="classifier" if index == 0 else name,
            linewidth=1.5,
            **figures.look(index),
        )


# -- section V-F -----------------------------------------------------------------------------------


def late(data: pd.DataFrame, short: str, layer: str) -> float:
    """Mean share of a layer over the last quarter of the rounds; the classifier is the last layer
    whatever its name.
    """
    lines = data[data["column"] == short]
    if lines.empty:
        return nan
    name = list(dict.fromkeys(lines["layer"]))[-1] if layer == "classifier" else layer
    end = lines[(lines["layer"] == name) & (lines["round"] > (1 - LATE) * lines["round"].max())]
    return float(end["share"].mean()) if len(end) else nan


def late_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """One claim per row of the text that states a range of shares."""
    rows = text.told(evidence, "V-F")
    rows = rows[rows["metric"].str.startswith("personalized_share_in_")]
    filed, names = files(evidence), {printed: short for short, printed in PRINTED.items()}
    return tuple(_late(evidence, data, filed, rows.loc[[place]], names) for place in rows.index)


def _late(
    evidence: Evidence,
    data: pd.DataFrame,
    filed: pd.DataFrame,
    rows: pd.DataFrame,
    names: dict[str, str],
) -> Claim:
    row = rows.iloc[0]
    layer = str(row["metric"]).removeprefix("personalized_share_in_")
    low, high = (float(part) for part in str(row["mean"]).split("-"))
    places = str(row["dataset"]).split(";")
    ours = {DATASETS[names[place]]: late(data, names[place], layer) for place in places}
    theirs = (
        {DATASETS[names[place]]: float(filed[layer].get(place, nan)) for place in places}
        if layer in filed
        else {}
    )
    label = " and ".join(DATASETS[names[place]] for place in places)
    where = "classifier" if layer == "classifier" else "first convolution"
    words = f"On {label} the {where} ends at {low:g} to {high:g} of the personal parameters"
    known = evidence.scale == "paper" and all(v == v for v in ours.values())
    told = (
        f"last quarter of the rounds at the {evidence.scale} scale: {_spoken(ours)}; the authors'"
        f" files: {_spoken(theirs)}"
    )
    found = text.claim(
        words,
        rows,
        _inside(ours, low, high) if known else None,
        told,
        _inside(theirs, low, high) if theirs else None,
    )
    stored = filed_rows(evidence, "fraction")
    return text.also(
        found, stored[(stored["metric"] == row["metric"]) & stored["dataset"].isin(places)]
    )


def _inside(values: dict[str, float], low: float, high: float) -> bool:
    """Within a range that is given to one decimal."""
    return all(low - 0.05 <= value <= high + 0.05 for value in values.values())


def _spoken(values: dict[str, float]) -> str:
    return ", ".join(
        f"{place} {'not run' if value != value else format(value, '.2f')}"
        for place, value in values.items()
    )


def fixed(evidence: Evidence) -> Claim:
    """The constant numbers of personal entries in the authors' files, counted in our masks of the
    true model.
    """
    rows, parts, holds = filed_rows(evidence, "count"), [], True
    for short, printed in PRINTED.items():
        done = pick(evidence, row=OURS, column=key(short), done=True)
        stated = rows.loc[rows["dataset"] == printed, "value"]
        if len(done) and len(stated):
            counted = float(
                ((done.iloc[0]["metrics"] or {}).get("notes") or {}).get("personal", nan)
            )
            holds &= round(counted, 3) == float(stated.iloc[0])
            parts.append(f"{DATASETS[short]} {counted:.0f} (files: {stated.iloc[0]:.0f})")
    told = (
        f"counted in the last masks at the {evidence.scale} scale: {', '.join(parts) or 'no run'}"
    )
    known = evidence.scale == "paper" and len(parts) == len(PRINTED)
    return text.claim(
        "Figure 6 has a constant number of personal parameters per data set",
        rows,
        holds if known else None,
        told,
    )


def axis(evidence: Evidence) -> Claim:
    """The number of epochs on the paper's axis."""
    rows = text.told(evidence, "V-F", metric="epochs_on_axis")
    trained = sorted(set(evidence.cells["recipe.training.rounds"]))
    holds = (
        [float(r) for r in trained] == [text.number(rows)] if evidence.scale == "paper" else None
    )
    said = f"runs have {'/'.join(map(str, trained))} rounds at the {evidence.scale} scale"
    printed = text.number(text.told(evidence, "V-A", metric="rounds")) == text.number(rows)
    return text.claim(
        "Figure 6 shows 450 communication epochs",
        rows,
        holds,
        f"{said}; section V-A states 400 (README, 30)",
        printed,
    )


def trend(evidence: Evidence, data: pd.DataFrame) -> Claim:
    """The sentence on all data sets."""
    parts, holds = [], []
    for short, label in DATASETS.items():
        lines = data[data["column"] == short]
        if lines.empty:
            continue
        names = list(dict.fromkeys(lines["layer"]))
        early = (
            lines[
                lines["round"]
                <= lines["round"].min() + max(1, ceil(LATE * lines["round"].max())) - 1
            ]
            .groupby("layer")["share"]
            .mean()
        )
        first, head = names[0], names[-1]
        ends = {name: late(data, short, name) for name in (first, head)}
        holds.append(ends[first] < early[first] and ends[head] > early[head])
        parts.append(
            f"{label} {first} {early[first]:.2f} to {ends[first]:.2f}, {head} {early[head]:.2f} to"
            f" {ends[head]:.2f}"
        )
    detail = (
        f"first to last quarter of the rounds at the {evidence.scale} scale: {'; '.join(parts)}"
    )
    return Claim(
        "The share of the first convolution falls and that of the classifier rises",
        all(holds) if holds else None,
        detail,
    )
