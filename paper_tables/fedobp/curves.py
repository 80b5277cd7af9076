"""Figures 2, 3 and 5: accuracy against rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas
from scipy.signal import savgol_filter

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.curves import accuracy_curves
from repfl.paper_tables.core.evidence import Evidence, pick, why_missing
from repfl.paper_tables.core.published import stated, told
from repfl.paper_tables.core.result import Claim, Figure, Sheet
from repfl.paper_tables.core.verdict import MARGIN
from repfl.paper_tables.fedobp import ablation, accuracy, logs
from repfl.paper_tables.fedobp.settings import (
    BASELINES,
    DATASETS,
    DRAWN,
    OURS,
    PAPER,
    PRINTED,
    key,
    smoke_note,
)

WINDOW, ORDER = 20, 2
COHORT = (
    "Lines: accuracy of the round's participants before they train, pooled, smoothed by a"
    " Savitzky-Golay filter of 20 rounds and order 2, as the published script does; ten clients are"
    " a noisy sample of a hundred. The tables score all clients. README, 30."
)
SHORT = f"Runs of fewer than {WINDOW} rounds are drawn unsmoothed."
ROUND = "round"


def smooth(values: np.ndarray) -> np.ndarray:
    """The published smoothing; curves shorter than its window stay as they are."""
    return values if len(values) < WINDOW else np.asarray(savgol_filter(values, WINDOW, ORDER))


def cohort_curves(
    evidence: Evidence, labels: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Column, label, round, value as stored, and smoothed as drawn."""
    data = accuracy_curves(evidence, labels, columns, "start/pooled").rename(
        columns={"mean": "value"}
    )
    data = data.drop(columns=["low", "high"]).sort_values(["column", "label", ROUND], kind="stable")
    data["mean"] = (
        data.groupby(["column", "label"])["value"].transform(
            lambda part: smooth(part.to_numpy(dtype=float))
        )
        if len(data)
        else []
    )
    return data.reset_index(drop=True)


def gaps(evidence: Evidence, labels: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """One note per reason for which lines are absent."""
    cells = evidence.cells
    planned, done = cells.groupby(["row", "column"]).indices, (cells["status"] == "done").to_numpy()
    found: dict[str, list[str]] = {}
    for column in columns:
        for label in labels:
            places = planned.get((label, column), ())
            if not len(places) or not done[places].all():
                found.setdefault(why_missing(cells.iloc[list(places)], evidence.scale), []).append(
                    f"{label} on {column}"
                )
    total = len(labels) * len(columns)
    return tuple(f"{_listed(lines, total)}: {reason}" for reason, lines in found.items())


def _listed(lines: Sequence[str], total: int) -> str:
    if len(lines) == total:
        return "All lines"
    return (
        ", ".join(lines)
        if len(lines) <= 6
        else f"{', '.join(lines[:4])} and {len(lines) - 4} other lines"
    )


# -- figures 2 and 3 -------------------------------------------------------------------------------


def fig2(evidence: Evidence) -> Figure:
    """Dir(0.1)."""
    return _convergence(evidence, "fig2", "0.1", fig2_claims)


def fig3(evidence: Evidence) -> Figure:
    """Dir(0.5)."""
    return _convergence(evidence, "fig3", "0.5", fig3_claims)


Claims = Callable[[Evidence, pd.DataFrame], tuple[Claim, ...]]
"""From the evidence and the curves as drawn to what the text says of them."""


def _convergence(evidence: Evidence, name: str, alpha: str, claims: Claims) -> Figure:
    columns = [key(short, alpha) for short in DATASETS]
    ours = cohort_curves(evidence, DRAWN, columns)
    data = beside_logs(ours, alpha, {method: method for method in DRAWN})
    what = f"{OURS} and eleven baselines at Dir({alpha}), ours and in the authors' logs."
    return Figure(
        PAPER,
        name,
        f"Figure {name[-1]}: convergence at Dir({alpha})",
        captions.caption(evidence, what, accuracy=False),
        evidence.scale,
        (
            COHORT,
            LOGGED,
            SHORT,
            accuracy.COMPAT,
            *smoke_note(evidence.scale),
            *gaps(evidence, DRAWN, columns),
        ),
        claims(evidence, ours),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw_panels(sheet, data, look),
        draw_data=lambda sheet, data: draw_panels(sheet, data, look),
        lines=LINES,
        data=data,
        alt=(
            f"Accuracy against rounds at Dir({alpha}), one line per method: a panel per data set"
            " for the authors' logs, and one for ours where there are runs."
        ),
    )


def beside_logs(ours: pd.DataFrame, alpha: str, names: Mapping[str, str]) -> pd.DataFrame:
    """Our curves, and those of the authors' logs under our labels; both with their data set."""
    shorts = {key(short, alpha, tail): short for short in DATASETS for tail in ("", "-m0.7")}
    logged = logs.curves(f"Dir({alpha})")
    logged = logged[logged["method"].isin(list(names))]
    places = {printed: short for short, printed in PRINTED.items()}
    logged = logged.assign(
        kind=THEIRS, short=logged["dataset"].map(places), label=logged["method"].map(names)
    )
    own = ours.assign(short=ours["column"].map(shorts))
    own = own if "kind" in own else own.assign(kind=MINE)
    return pd.concat(
        [own, logged.drop(columns=["dataset", "method"])], ignore_index=True
    ).sort_values(["kind", "short", "label", ROUND], kind="stable", ignore_index=True)


THEIRS, MINE = "authors' log", "ours"
LINES = ("short", "kind", "label")
LOGGED = (
    "The authors' logs: accuracy of all clients at the four evaluations of 400 rounds, with"
    " momentum 0.7, one seed (`author_logs.csv`). Ours is accuracy of a round's participants, below"
    " the paper scale also of shorter runs: the two stand beside each other, not to be subtracted."
)


def look(label: str, _: str = "") -> dict[str, Any]:
    """FedOBP stands out in black; baselines have a colour and a dash each."""
    if label == OURS:
        return {"color": "black", "linestyle": "-", "linewidth": 2.0, "zorder": 5}
    return {**figures.look(BASELINES.index(label)), "linewidth": 1.1}


def draw_panels(
    sheet: Sheet, data: pd.DataFrame, style: Callable[[str, str], dict[str, Any]]
) -> Canvas:
    """Draw a panel per data set for the logs, and below one per scale for ours, where there are
    runs.
    """
    own = data[data["kind"] != THEIRS]
    parts = {"authors' logs": data[data["kind"] == THEIRS], "ours": own}
    if "scale" in data and own["scale"].nunique() > 1:
        del parts["ours"]
        parts |= {f"ours, {scale} scale": part for scale, part in own.groupby("scale", sort=False)}
    blocks = [
        (f"{label}, {whose}", lines[lines["short"] == short])
        for whose, lines in parts.items()
        for short, label in DATASETS.items()
        if (lines["short"] == short).any()
    ]
    canvas = sheet(12, 2.6 * -(-len(blocks) // 4) + 0.9)
    axes = figures.panels(canvas, len(blocks), 4)
    for panel, (title, lines) in zip(axes, blocks, strict=True):
        for (kind, label), line in lines.groupby(["kind", "label"], sort=False):
            few = {"marker": "o", "markersize": 3} if len(line) <= figures.FEW else {}
            looks = {**style(str(label), str(kind)), **few}
            way = ", as defined" if str(kind).endswith("as defined") else ""
            panel.plot(line[ROUND], line["mean"], label=f"{label}{way}", **looks)
        panel.set_title(title)
        panel.set_ylim(*figures.limits(lines["mean"].to_numpy(dtype=float)))
        panel.set_xlabel("Round")
    for panel in axes[::4]:
        panel.set_ylabel("Accuracy (%)")
    missing = [label for short, label in DATASETS.items() if not (own["short"] == short).any()]
    figures.legend_of(canvas, axes, columns=7, missing=missing)
    return canvas


BOUNDS = {
    "high-on-cifar10": (
        "pFedFDA and FedPer both exceed 85 % on CIFAR-10",
        "cifar10",
        ("pFedFDA", "FedPer"),
        "accuracy_lower_bound",
    ),
    "low-on-cifar10": (
        "APFL, FLUTE and FedALA stay below 75 % on CIFAR-10",
        "cifar10",
        ("APFL", "FLUTE", "FedALA"),
        "accuracy_upper_bound",
    ),
    "high-on-organa": (
        "LG-FedAvg and pFedFDA surpass 67 % on OrganAMNIST",
        "organa",
        ("LG-FedAvg", "pFedFDA"),
        "accuracy_lower_bound",
    ),
    "high-on-organc": (
        "LG-FedAvg and pFedFDA surpass 66 % on OrganCMNIST",
        "organc",
        ("LG-FedAvg", "pFedFDA"),
        "accuracy_lower_bound",
    ),
}
"""Sentences on the heights of figure 2's curves."""


def fig2_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Section V-C on Dir(0.1). The paper's own curves are a picture, and its tables score something
    else.
    """
    count = told(evidence.published, metric="number_of_methods_in_figures_2_3")
    drawn = [name for name in DRAWN if name != OURS]
    found = [
        Claim(
            "eleven-baselines-drawn",
            "FedOBP is drawn with eleven baselines",
            len(drawn) == stated(count),
            f"{len(drawn)} are drawn",
            evidence.scale,
            sources=tuple(count["source"]),
            free=True,
        )
    ]
    for name, (words, short, methods, metric) in BOUNDS.items():
        rows = told(evidence.published, table="text V-C", dataset=PRINTED[short], metric=metric)
        lines = data[data["column"] == key(short)]
        tops = lines.groupby("label")["mean"].max().reindex(list(methods))
        gaps = (tops - stated(rows)) * (-1 if metric == "accuracy_upper_bound" else 1)
        said = ", ".join(f"{method} {top:.2f}" for method, top in tops.items())
        known = bool(tops.notna().all())
        found.append(
            Claim(
                name,
                words,
                _clear(gaps) if known else None,
                f"highest points of the curves as drawn (1 seed): {said}"
                if known
                else "not all of these curves have been run",
                evidence.scale,
                sources=tuple(rows["source"]),
                full_scale_only=True,
            )
        )
    return tuple(found)


def _clear(gaps: pd.Series) -> bool | None:
    """Whether heights lie on the right side of a bound; within a point one run cannot tell."""
    if (gaps > MARGIN).all():
        return True
    return False if (gaps < -MARGIN).any() else None


def fig3_claims(evidence: Evidence, _: pd.DataFrame) -> tuple[Claim, ...]:
    """Section V-C on Dir(0.5)."""
    rows, parts, reached = told(evidence.published, metric="rounds_to_near_optimum"), [], []
    for short in ("cifar10", "cifar100"):
        done = pick(evidence, row=OURS, column=key(short, "0.5"), done=True)
        curve = evidence.rounds(list(done["id"]), "post_agg/pooled")
        scored = 100 * curve.groupby(ROUND)["value"].mean()
        if len(scored):
            first = int(scored.index[scored >= scored.max() - 1][0])
            reached.append(first)
            parts.append(
                f"{DATASETS[short]}: within a point of the best {scored.max():.2f} from round"
                f" {first}"
            )
    return (
        Claim(
            "near-optimum-at-200",
            "On CIFAR-10 and CIFAR-100 FedOBP is near its optimum at around 200 rounds",
            all(first <= stated(rows) for first in reached) if len(reached) == 2 else None,
            f"among scored rounds (1 seed): {'; '.join(parts) or 'no run'}",
            evidence.scale,
            sources=tuple(rows["source"]),
            full_scale_only=True,
        ),
    )


# -- figure 5 --------------------------------------------------------------------------------------


def fig5(evidence: Evidence) -> Figure:
    """The runs of Table V."""
    as_logged, defined = list(ablation.AS_LOGGED.values()), [key(short) for short in DATASETS]
    rows = {f"{name}, as defined": name for name in ablation.NORMS}
    ours = pd.concat(
        [
            cohort_curves(evidence, ablation.NORMS, as_logged).assign(kind="ours, as logged"),
            cohort_curves(evidence, list(rows), defined).assign(kind="ours, as defined"),
        ],
        ignore_index=True,
    )
    ours["label"] = ours["label"].replace(rows)
    data = beside_logs(ours, "0.1", {f"{OURS} {name}": name for name in ablation.NORMS})
    what = (
        "FedOBP under four normalisations, in the authors' logs and ours. Solid: as logged by the"
        " authors; dashed: as defined. NoNorm and GlobalNorm coincide."
    )
    return Figure(
        PAPER,
        "fig5",
        "Figure 5: convergence under four normalisations",
        captions.caption(evidence, what, accuracy=False),
        evidence.scale,
        (
            COHORT,
            LOGGED,
            SHORT,
            ablation.TWICE,
            *smoke_note(evidence.scale),
            *gaps(evidence, ablation.NORMS, as_logged),
        ),
        ids=tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw_panels(sheet, data, look_of_norm),
        draw_data=lambda sheet, data: draw_panels(sheet, data, look_of_norm),
        lines=LINES,
        data=data,
        alt="Accuracy against rounds for four normalisations of the score, per data set.",
    )


WIDTHS = {"NoNorm": 3.2, "LayerNorm": 1.3, "GlobalNorm w/o CLS": 1.1, "GlobalNorm with CLS": 1.3}
"""The wide NoNorm line shows on both sides of the thin GlobalNorm line on top of it."""


def look_of_norm(label: str, kind: str) -> dict[str, Any]:
    """A colour per normalisation."""
    index = ablation.NORMS.index(label)
    return {
        "color": figures.PALETTE[index],
        "linestyle": (0, (4, 2)) if kind == "ours, as defined" else "-",
        "linewidth": WIDTHS[label],
        "alpha": 0.45 if index == 0 else 1.0,
    }
