"""Figures 2 and 3: our curves beside those of the authors' figures, round by round.

The drawn curves have momentum 0.7. Our runs of Tables III and IV have none; runs of sixty rounds
have 0.7 and 0.9.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import all_met, in_words, judge_all
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, Column, Figure, NewCanvas, claim
from repfl.paper_tables.core.statistics.verdict import MARGIN
from repfl.paper_tables.fedobp import accuracy, logs
from repfl.paper_tables.fedobp.curves import (
    COHORT,
    EARLY,
    FIGURES,
    LOGS,
    drawn,
    evaluations,
    gaps,
    over_seeds,
    run_curves,
)
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    DRAWN,
    FOLDER,
    OURS,
    PAPER,
    PRINTED,
    SAME_DATA,
    key,
)

SHORT = ("0.7", "0.9")
"""Momenta of the runs of sixty rounds."""
LOGGED = "0.7"
"""The momentum of the logs behind the figures."""
COLOURS = {"0": "#0072b2", "0.7": "#d55e00", "0.9": "#009e73"}
PER_ROW = 5
START = 20
"""Rounds that a panel does not make room for."""
THINNED = 5
"""Every fifth point of a drawn curve is kept in the data of a figure."""
SETTING = (
    "The curves of this figure in the authors' repository are their logs, smoothed, with momentum"
    " 0.7. That is the setting of our runs of sixty rounds with 0.7; the full runs are those of"
    " Tables III and IV, without momentum, which is another setting. README, 2."
)


def fig2(evidence: Evidence) -> Figure:
    """Dir(0.1)."""
    return _convergence(evidence, "0.1")


def fig3(evidence: Evidence) -> Figure:
    """Dir(0.5)."""
    return _convergence(evidence, "0.5")


def _convergence(evidence: Evidence, alpha: str) -> Figure:
    name, columns = FIGURES[alpha], [key(short, alpha) for short in DATASETS]
    runs = our_curves(evidence, alpha)
    full = over_seeds(runs[runs["momentum"] == "0"])
    title = f"Figure {name[-1]}: convergence at Dir({alpha})"
    judged = fig2_claims(evidence, full) if alpha == "0.1" else fig3_claims(evidence)
    if evidence.scale != "paper":  # other clients: no curve of the paper stands beside them
        return forms.by_round(
            evidence,
            (PAPER, name),
            title,
            f"{OURS} and its baselines at Dir({alpha}).",
            rows=DRAWN,
            columns=[Column(key(short, alpha), text) for short, text in DATASETS.items()],
            data=full,
            own=OURS,
            notes=(*forms.at_scale(evidence, smoke=SAME_DATA), COHORT, accuracy.COMPAT),
            claims=judged,
        )
    beside = gaps(runs)
    return forms.figure(
        evidence,
        (PAPER, name),
        title,
        f"{OURS} and its baselines at Dir({alpha}): every curve of ours beside that of the figure.",
        partial(draw, runs=runs, alpha=alpha),
        beside_drawn(runs, alpha),
        notes=(SETTING, COHORT, accuracy.COMPAT, *forms.missing(evidence, DRAWN, columns)),
        claims=judged,
        findings=findings(beside),
        curve_gaps=beside,
    )


def our_curves(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return our curves at a level of heterogeneity with their momentum. Runs of sixty rounds have
    the label and column of the full ones.
    """
    rows = {name: (name, "0") for name in DRAWN}
    for momentum in SHORT:
        rows |= {f"{n}, momentum {momentum}, 60 rounds": (n, momentum) for n in DRAWN}
    columns = [key(short, alpha, tail) for short in DATASETS for tail in ("", "-60")]
    runs = run_curves(evidence, list(rows), columns)
    full = {
        "column": runs["column"].str.removesuffix("-60"),
        "label": runs["label"].map(rows).str[0],
    }
    return runs.assign(momentum=runs["label"].map(rows).str[1], **full)


def beside_drawn(runs: pd.DataFrame, alpha: str) -> pd.DataFrame:
    """Return our curves and those of the figure: label, kind, seed, round, mean, column."""
    suffix = runs["momentum"].map(lambda each: "" if each == "0" else f", momentum {each}")
    ours = runs.assign(label=runs["label"] + suffix, kind="ours")
    parts = [ours[["column", "label", "kind", "seed", "round", "mean"]]]
    for short in DATASETS:
        for method in DRAWN:
            line = drawn(FIGURES[alpha], PRINTED[short], method).iloc[::THINNED]
            points = {"round": line.index, "mean": line.to_numpy()}
            about = {"label": method, "kind": "the paper's figure (log)"}
            parts.append(pd.DataFrame(points).assign(column=key(short, alpha), **about))
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def draw(new_canvas: NewCanvas, runs: pd.DataFrame, alpha: str) -> Canvas:
    """Draw a small panel per curve of ours, with that of the figure behind it."""
    there = set(zip(runs["column"], runs["label"], strict=True))
    pairs = [(short, m) for short in DATASETS for m in DRAWN if (key(short, alpha), m) in there]
    canvas = new_canvas(2.1 * PER_ROW, 1.6 * max(1, -(-len(pairs) // PER_ROW)) + 0.9)
    if not pairs:
        figure_style.not_run(*figure_style.panels(canvas, 1, 1))
        return canvas
    panels = figure_style.panels(canvas, len(pairs), PER_ROW)
    for axes, (short, method) in zip(panels, pairs, strict=True):
        line = drawn(FIGURES[alpha], PRINTED[short], method)
        if line.empty:
            axes.text(0.96, 0.06, "not drawn there", transform=axes.transAxes, ha="right", size=8)
        axes.plot(line.index, line, color="0.55", linewidth=2.2, label="the paper's figure")
        here = runs[(runs["column"] == key(short, alpha)) & (runs["label"] == method)]
        for (momentum, seed), run in here.groupby(["momentum", "seed"]):
            label = f"ours, momentum {momentum}" if seed == here["seed"].min() else None
            colour = COLOURS[str(momentum)]
            width = 1.4 if momentum == LOGGED else 0.8
            axes.plot(run["round"], run["mean"], color=colour, linewidth=width, label=label)
        late = [*line[line.index > START], *here.loc[here["round"] > START, "mean"]]
        if late:
            axes.set_ylim(min(late) - 2, max(late) + 1)
        axes.set_title(f"{method}, {DATASETS[short]}", fontsize=8)
        axes.tick_params(labelsize=7.5)
    for axes in panels[-PER_ROW:]:
        axes.set_xlabel("Round", fontsize=8)
    canvas.supylabel("Accuracy of the round's participants (%)", fontsize=9)
    figure_style.legend_below(canvas, panels, columns=4)
    return canvas


def findings(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return how our runs lie beside the drawn curves, the momentum of the logs first."""
    parts = []
    early = frame[frame["last"] == EARLY[1]].groupby("setting")["difference"]
    gaps = {str(setting).removeprefix("momentum "): off for setting, off in early}
    for momentum in sorted(gaps, key=lambda each: (each != LOGGED, each)):
        off, whose = gaps[momentum], ", as in the logs" if momentum == LOGGED else ""
        lowest, highest, median = map(signed, (off.min(), off.max(), off.median()))
        many = f"{lowest} to {highest} ({len(off)} curves, median {median})"
        one = f"{median} (1 curve)"
        with_it = f"with momentum {momentum}{whose}" if momentum != "0" else "without momentum"
        parts.append(f"{with_it}: {one if len(off) == 1 else many}")
    first, last = EARLY
    start = f"Ours minus the drawn curve in rounds {first} to {last}, in points"
    return (f"{start}: {'; '.join(parts)}.",) if parts else ()


# -- section V-C -----------------------------------------------------------------------------------


def judged_evaluations(evidence: Evidence, alpha: str) -> tuple[Claim, ...]:
    """Return the claims of section V-C on both evaluations."""
    rows, columns = {name: name for name in DRAWN}, {s: key(s, alpha) for s in DATASETS}
    frame = evaluations(evidence, rows, columns, f"Dir({alpha})")
    claims = judge_all(evidence, FOLDER, FIGURES[alpha], frame, logged=True)
    return tuple(replace(c, why=f"{c.why}; {LOGS}, and FedALA has no log") for c in claims)


BOUNDS = {
    "high-on-cifar10": ("pFedFDA and FedPer both exceed 85 % on CIFAR-10", ["pFedFDA", "FedPer"]),
    "low-on-cifar10": (
        "APFL, FLUTE and FedALA stay below 75 % on CIFAR-10",
        ["APFL", "FLUTE", "FedALA"],
    ),
    "high-on-organa": (
        "LG-FedAvg and pFedFDA surpass 67 % on OrganAMNIST",
        ["LG-FedAvg", "pFedFDA"],
    ),
    "high-on-organc": (
        "LG-FedAvg and pFedFDA surpass 66 % on OrganCMNIST",
        ["LG-FedAvg", "pFedFDA"],
    ),
}
"""Sentences on the heights of figure 2's curves, and their methods."""


def fig2_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Return the claims of section V-C on Dir(0.1). The paper's own curves are a picture, and its
    tables score something else.
    """
    count = select(evidence.published, metric="number_of_methods_in_figures_2_3")
    baselines = [name for name in DRAWN if name != OURS]
    claims = [
        shared_claims.setting(
            evidence.scale,
            ("eleven-baselines-drawn", "FedOBP is drawn with eleven baselines", "V-C"),
            len(baselines) == stated(count),
            f"{len(baselines)} are drawn",
            tuple(count["source"]),
        )
    ]
    for name, (words, methods) in BOUNDS.items():
        way, _, short = name.split("-")
        metric = f"accuracy_{'lower' if way == 'high' else 'upper'}_bound"
        rows = select(evidence.published, table="text V-C", dataset=PRINTED[short], metric=metric)
        tops = data[data["column"] == key(short)].groupby("label")["mean"].max().reindex(methods)
        heights = {str(m): float(top) for m, top in tops.items()}
        clear = partial(_clear, sign=1 if way == "high" else -1, bound=stated(rows))
        claims.append(
            claim(
                name,
                words,
                all_met(heights, clear),
                f"highest points of the curves as drawn (1 seed): {in_words(heights)}",
                evidence.scale,
                place="V-C",
                sources=tuple(rows["source"]),
            )
        )
    return (*claims, *judged_evaluations(evidence, "0.1"))


def _clear(value: float, sign: int, bound: float) -> bool | None:
    """Whether a height lies on the right side of a bound; within a point one run cannot tell."""
    gap = sign * (value - bound)
    return gap > 0 if abs(gap) > MARGIN else None


def fig3_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """Return the claims of section V-C on Dir(0.5)."""
    rows = select(evidence.published, metric="rounds_to_near_optimum")
    logged = logs.curves("Dir(0.5)").query("method == @OURS")
    below, filed = {}, {}
    for short in ("cifar10", "cifar100"):
        done = pick(evidence, row=OURS, column=key(short, "0.5"), done=True)
        curve = evidence.rounds(list(done["id"]), "post_agg/pooled")
        scored = 100 * curve.groupby("round")["value"].mean()
        below[DATASETS[short]] = _below(scored, stated(rows))
        theirs = logged[logged["dataset"] == PRINTED[short]].set_index("round")["mean"]
        filed[DATASETS[short]] = _below(theirs, stated(rows))
    near = claim(
        "near-optimum-at-200",
        "On CIFAR-10 and CIFAR-100 FedOBP is near its optimum at around 200 rounds",
        all_met(below, lambda gap: True if gap <= MARGIN else False if gap > 2 * MARGIN else None),
        "points below the best by round 200, among scored rounds (1 seed):"
        f" {in_words(below)}; in the authors' logs (momentum 0.7): {in_words(filed)}",
        evidence.scale,
        place="V-C",
        sources=tuple(rows["source"]),
    )
    return near, *judged_evaluations(evidence, "0.5")


def _below(scored: pd.Series, until: float) -> float:
    """How far the best so far lies below the best of all."""
    return float(scored.max() - scored[scored.index <= until].max()) if len(scored) else nan
