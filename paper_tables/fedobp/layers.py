"""Figure 6: in which layers personal parameters lie, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, nan
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims.sentences import in_words
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, noted, pick, why_missing
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, NewCanvas, Result, claim
from repfl.paper_tables.fedobp.settings import DATASETS, OURS, PAPER, PRINTED, SAME_DATA, key

NOTE = "note/personal"
FILES = "author files (Fig 6)"
CLASSIFIER, FILED = "classifier", "the authors' files, end"
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
ENDS = (
    "Diamonds at the right: shares in the last 100 records of the authors' files, classifier and"
    " first convolution."
)


def fig6(evidence: Evidence) -> Result:
    """Shares of the layers in eight panels."""
    data, key_ = shares(evidence), (PAPER, "fig6")
    title = "Figure 6: where personal parameters lie"
    what = "Share of each layer in the personal parameters, against rounds, at Dir(0.1)."
    claims = (*late_claims(evidence, data), fixed(evidence), axis(evidence), trend(evidence, data))
    if data.empty:
        reason = why_missing(evidence.cells, evidence.scale)
        return forms.absent(evidence, key_, title, what, reason, claims)
    filed = files(evidence)
    if evidence.scale == "smoke":  # digits stand beside no file
        filed = filed.iloc[:0]
    return forms.figure(
        evidence,
        key_,
        title,
        what,
        lambda new_canvas: draw(new_canvas, data, filed, beside=evidence.scale == "paper"),
        data,
        notes=(AXIS, FIXED, ENDS, *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=claims,
        findings=_held_by_classifier(data) if evidence.scale != "smoke" else (),
        alt="Share of each layer in the personal parameters against rounds, a panel per data set.",
    )


def shares(evidence: Evidence) -> pd.DataFrame:
    """Column, layer, round, count and share of all personal entries; rounds in which nobody has any
    are left out.
    """
    shorts = {key(short): short for short in DATASETS}
    cells = pick(evidence, row=OURS, done=True).drop_duplicates("column")
    cells = cells.loc[cells["column"].isin(list(shorts)), ["id", "column"]]
    rounds = cells.merge(evidence.rounds(list(cells["id"]), NOTE, f"{NOTE}/"), on="id")
    whole = rounds[(rounds["name"] == NOTE) & (rounds["value"] > 0)].drop(columns=["id", "name"])
    layers = rounds[rounds["name"] != NOTE].rename(columns={"value": "count"})
    data = layers.merge(whole, on=["column", "round"])
    return pd.DataFrame(
        {
            "column": data["column"].map(shorts),
            "layer": data["name"].str.rpartition("/")[2] if len(data) else [],
            "round": data["round"],
            "count": data["count"],
            "share": data["count"] / data["value"],
        }
    )


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


def _held_by_classifier(data: pd.DataFrame) -> tuple[str, ...]:
    """Return the share of the last layer at the end of every run, in a sentence."""
    ends = {label: 100 * late(data, short, CLASSIFIER) for short, label in DATASETS.items()}
    parts = [f"{share:.0f} % on {label}" for label, share in ends.items() if share == share]
    words = "; ".join(parts)
    return (f"Share of personal parameters in the classifier, last quarter of rounds: {words}.",)


def draw(
    new_canvas: NewCanvas, data: pd.DataFrame, filed: pd.DataFrame, *, beside: bool = True
) -> Canvas:
    """Draw one panel per data set that has runs; the last layer is the classifier. The legend says
    so if ours are no runs to put `beside` the authors' files.
    """
    name = FILED if beside else f"{FILED} (full size, not comparable)"
    shown = [short for short in DATASETS if (data["column"] == short).any()]
    canvas = new_canvas(3 * min(4, max(2, len(shown))), 2.8 * -(-len(shown) // 4) + 0.9)
    axes = figure_style.panels(canvas, len(shown), 4)
    for panel, short in zip(axes, shown, strict=True):
        lines = data[data["column"] == short].sort_values("round", kind="stable")
        rolled = lines.groupby("layer")["share"].rolling(ROLLING, min_periods=1).mean()
        layers = list(dict.fromkeys(data.loc[data["column"] == short, "layer"]))
        names = {layers[-1]: CLASSIFIER} | {layer: layer for layer in layers[:-1]}
        styles = figure_style.looks(list(names.values()))
        drawn = lines.assign(mean=rolled.droplevel(0), label=lines["layer"].map(names))
        plots.curves(panel, drawn, styles)
        ends = {layer: filed[layer].get(PRINTED[short], nan) for layer in (CLASSIFIER, "conv1")}
        final_shares = {layer: end for layer, end in ends.items() if end == end and layer in styles}
        plots.at_the_end(panel, max(2, int(lines["round"].max())), final_shares, styles, name)
        panel.set_title(DATASETS[short])
        panel.set_ylim(-0.03, 1.03)
        panel.set_xlabel("Round")
    for panel in axes[::4]:
        panel.set_ylabel("Share of personal parameters")
    missing = [label for short, label in DATASETS.items() if short not in shown]
    figure_style.legend_below(canvas, axes, 6, f"Not run: {', '.join(missing)}" if missing else "")
    return canvas


# -- section V-F -----------------------------------------------------------------------------------


def late(data: pd.DataFrame, short: str, layer: str) -> float:
    """Return the mean share of a layer over the last quarter of the rounds; "classifier" is the
    last layer.
    """
    lines = data[data["column"] == short]
    if lines.empty:
        return nan
    name = list(dict.fromkeys(lines["layer"]))[-1] if layer == "classifier" else layer
    end = lines[(lines["layer"] == name) & (lines["round"] > (1 - LATE) * lines["round"].max())]
    return float(end["share"].mean()) if len(end) else nan


RANGE = "personalized_share_in_"


def late_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Return one claim per row of the text that states a range of shares."""
    rows, filed = select(evidence.published, table="text V-F"), filed_rows(evidence, "fraction")
    rows = rows[rows["metric"].str.startswith(RANGE)]
    return tuple(_late(evidence.scale, data, row, filed) for row in rows.to_dict("records"))


def _late(scale: str, data: pd.DataFrame, row: Mapping[Any, Any], filed: pd.DataFrame) -> Claim:
    layer, datasets = row["metric"].removeprefix(RANGE), row["dataset"].split(";")
    low, high = map(float, row["mean"].split("-"))
    shorts = [short for dataset in datasets for short, name in PRINTED.items() if name == dataset]
    stored = filed[(filed["metric"] == row["metric"]) & filed["dataset"].isin(datasets)]
    values = stored.set_index("dataset")["value"].astype(float)
    ours = {DATASETS[short]: late(data, short, layer) for short in shorts}
    theirs = {DATASETS[short]: float(values.get(PRINTED[short], nan)) for short in shorts}
    where = CLASSIFIER if layer == CLASSIFIER else "first convolution"
    return claim(
        f"late-{layer}-{'-'.join(shorts)}",
        f"On {' and '.join(ours)} the {where} ends at {low:g} to {high:g} of the personal"
        " parameters (to one decimal)",
        _inside(ours, low, high) if all(v == v for v in ours.values()) else None,
        f"last quarter of the rounds (1 seed): {_in_words(ours)}; the authors' files:"
        f" {_in_words(theirs)}",
        scale,
        place="V-F",
        printed=_inside(theirs, low, high),
        sources=(row["source"], *stored["source"]),
    )


def _inside(values: Mapping[str, float], low: float, high: float) -> bool:
    """Return whether all values, rounded to one decimal as the range is, lie in it."""
    return all(low <= round(value, 1) <= high for value in values.values())


def _in_words(values: Mapping[str, float]) -> str:
    return in_words(values).replace("not known", "not run")


def fixed(evidence: Evidence) -> Claim:
    """Return the claim that the numbers of personal entries are constant, from the authors' files
    and our masks of the true model.
    """
    rows = filed_rows(evidence, "count")
    filed = rows.set_index("dataset")["value"].astype(float)
    counted: dict[str, float] = {}
    for short in DATASETS:
        done = pick(evidence, row=OURS, column=key(short), done=True)
        for metrics in done["metrics"].head(1):
            counted[short] = round(noted(metrics, "personal"), 3)
    counts = ", ".join(
        f"{DATASETS[short]} {number:.0f} (files: {filed[PRINTED[short]]:.0f})"
        for short, number in counted.items()
    )
    same = all(number == filed[PRINTED[short]] for short, number in counted.items())
    return claim(
        "constant-number",
        "Figure 6 has a constant number of personal parameters per data set",
        same if len(counted) == len(PRINTED) else None,
        f"counted in the last masks: {counts or 'no run'}",
        evidence.scale,
        place="V-F",
        sources=tuple(rows["source"]),
        any_run=True,
    )


def axis(evidence: Evidence) -> Claim:
    """Return the claim on the epochs on the paper's axis, compared with the rounds in its text."""
    rows = select(evidence.published, metric="epochs_on_axis")
    rounds = stated(select(evidence.published, table="text V-A", metric="rounds"))
    same = rounds == stated(rows)
    return claim(
        "epochs-on-axis",
        "Figure 6 shows 450 communication epochs",
        same,
        f"section V-A states {rounds:.0f} rounds (README, 30)",
        evidence.scale,
        place="Figure 6",
        printed=same,
        sources=tuple(rows["source"]),
        exact=True,
    )


SEEN = 0.005
"""Shares are printed with two decimals; one that moves by less has not moved."""


def moved(data: pd.DataFrame) -> tuple[bool | None, str]:
    """Return whether on all data sets the share of the first layer falls and that of the last one
    rises, from the first to the last quarter of the rounds; and both shares in words.
    """
    parts, answers = [], list[bool | None]()
    for short, label in DATASETS.items():
        lines = data[data["column"] == short]
        if lines.empty:
            continue
        names = list(dict.fromkeys(lines["layer"]))
        until = lines["round"].min() + max(1, ceil(LATE * lines["round"].max())) - 1
        early = lines[lines["round"] <= until].groupby("layer")["share"].mean()
        ways = {name: (float(early[name]), late(data, short, name)) for name in names}
        (fell, down), (rose, up) = ways[names[0]], ways[names[-1]]
        moves = (fell - down, up - rose)
        answers.append(True if min(moves) > SEEN else False if min(moves) < -SEEN else None)
        parts.append(
            f"{label} {names[0]} {fell:.2f} to {down:.2f}, {names[-1]} {rose:.2f} to {up:.2f}"
        )
    answer = False if False in answers else True if answers and None not in answers else None
    return answer, "; ".join(parts)


def trend(evidence: Evidence, data: pd.DataFrame) -> Claim:
    """Return the claim that holds for all data sets."""
    answer, words = moved(data)
    return claim(
        "moves-to-classifier",
        "The share of the first convolution falls and that of the classifier rises",
        answer,
        f"first to last quarter of the rounds (1 seed): {words or 'no run'}",
        evidence.scale,
        place="V-F",
    )
