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
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, Column, Figure, NewCanvas, claim
from repfl.paper_tables.core.statistics.curve_gap import compare_curves
from repfl.paper_tables.core.statistics.verdict import MARGIN
from repfl.paper_tables.fedobp import accuracy, logs
from repfl.paper_tables.fedobp.curves import (
    COHORT,
    LOGS,
    drawn,
    evaluations,
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

TITLES = {printed: DATASETS[short] for short, printed in PRINTED.items()}
FIGURES = {"0.1": "fig2", "0.5": "fig3"}
EARLY = (15, 50)
"""Rounds of the comparison: in runs of sixty rounds the last ten are smoothed at an edge."""
SHORT = ("0.7", "0.9")
"""Momenta of the runs of sixty rounds."""
LOGGED = "0.7"
"""The momentum of the logs behind the figures."""
KEYS = ["dataset", "method", "momentum"]
COLOURS = {"0": "#0072b2", "0.7": "#d55e00", "0.9": "#009e73"}
PER_ROW = 5
START = 20
"""Rounds that a panel does not make room for."""
THINNED = 5
"""Every fifth point of a drawn curve is kept in the data of a figure."""
ANOTHER_SETTING = (
    "The curves of this figure in the authors' repository are their logs, smoothed, with momentum"
    " 0.7. Our lines are the runs of Tables III and IV, without momentum: another setting. README,"
    " 2."
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
    gaps = compared(runs, alpha)
    return forms.figure(
        evidence,
        (PAPER, name),
        title,
        f"{OURS} and its baselines at Dir({alpha}): every curve of ours beside that of the figure.",
        partial(draw, runs=runs, alpha=alpha),
        beside_drawn(runs, alpha),
        notes=(
            ANOTHER_SETTING,
            COHORT,
            *gaps_in_words(gaps),
            accuracy.COMPAT,
            *forms.missing(evidence, DRAWN, columns),
        ),
        claims=judged,
        findings=findings(gaps),
    )


def our_curves(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return our curves at a level of heterogeneity with data set, method and momentum."""
    rows = {name: (name, "0") for name in DRAWN}
    for momentum in SHORT:
        rows |= {f"{n}, momentum {momentum}, 60 rounds": (n, momentum) for n in DRAWN}
    columns = {key(s, alpha, tail): PRINTED[s] for s in DATASETS for tail in ("", "-60")}
    runs = run_curves(evidence, list(rows), list(columns))
    named = pd.DataFrame([rows[label] for label in runs["label"]], columns=["method", "momentum"])
    return runs.join(named).assign(dataset=runs["column"].map(columns))


def beside_drawn(runs: pd.DataFrame, alpha: str) -> pd.DataFrame:
    """Return our curves and those of the figure: label, kind, seed, round, mean, column."""
    suffix = runs["momentum"].map(lambda each: "" if each == "0" else f", momentum {each}")
    ours = runs.assign(label=runs["method"] + suffix, kind="ours")
    parts = [ours[["dataset", "label", "kind", "seed", "round", "mean"]]]
    for dataset in PRINTED.values():
        for method in DRAWN:
            line = drawn(FIGURES[alpha], dataset, method).iloc[::THINNED]
            points = {"round": line.index, "mean": line.to_numpy()}
            about = {"dataset": dataset, "label": method, "kind": "the paper's figure (log)"}
            parts.append(pd.DataFrame(points).assign(**about))
    frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return frame.assign(column=frame["dataset"].map(TITLES)).drop(columns="dataset")


def draw(new_canvas: NewCanvas, runs: pd.DataFrame, alpha: str) -> Canvas:
    """Draw a small panel per curve of ours, with that of the figure behind it."""
    there = set(zip(runs["dataset"], runs["method"], strict=True))
    pairs = [(d, m) for d in TITLES for m in DRAWN if (d, m) in there]
    canvas = new_canvas(2.1 * PER_ROW, 1.6 * max(1, -(-len(pairs) // PER_ROW)) + 0.9)
    if not pairs:
        figure_style.not_run(*figure_style.panels(canvas, 1, 1))
        return canvas
    panels = figure_style.panels(canvas, len(pairs), PER_ROW)
    for axes, (dataset, method) in zip(panels, pairs, strict=True):
        line = drawn(FIGURES[alpha], dataset, method)
        if line.empty:
            axes.text(0.96, 0.06, "not drawn there", transform=axes.transAxes, ha="right", size=8)
        axes.plot(line.index, line, color="0.55", linewidth=2.2, label="the paper's figure")
        here = runs[(runs["dataset"] == dataset) & (runs["method"] == method)]
        for (momentum, seed), run in here.groupby(["momentum", "seed"]):
            label = f"ours, momentum {momentum}" if seed == here["seed"].min() else None
            colour = COLOURS[str(momentum)]
            axes.plot(run["round"], run["mean"], color=colour, linewidth=1, label=label)
        late = [*line[line.index > START], *here.loc[here["round"] > START, "mean"]]
        if late:
            axes.set_ylim(min(late) - 2, max(late) + 1)
        axes.set_title(f"{method}, {TITLES[dataset]}", fontsize=8)
        axes.tick_params(labelsize=7.5)
    for axes in panels[-PER_ROW:]:
        axes.set_xlabel("Round", fontsize=8)
    canvas.supylabel("Accuracy of the round's participants (%)", fontsize=9)
    figure_style.legend_below(canvas, panels, columns=4)
    return canvas


def compared(runs: pd.DataFrame, alpha: str) -> pd.DataFrame:
    """Return ours minus the drawn curve over the early rounds, a row per data set, method and
    momentum, with the columns of `trajectory.COLUMNS`.
    """
    fields = [*KEYS, "rounds", "seeds", "difference", "rms", "noise"]
    parts = [pd.DataFrame(columns=fields)]
    for names, each in runs.assign(value=runs["mean"]).groupby(KEYS, sort=False):
        dataset, method, momentum = map(str, names)
        if len(line := drawn(FIGURES[alpha], dataset, method)):
            windows = compare_curves(each[["seed", "round", "value"]], line, [EARLY])
            parts.append(windows.assign(dataset=dataset, method=method, momentum=momentum))
    frame = pd.concat(parts[1:] or parts, ignore_index=True)
    orders = {"dataset": tuple(PRINTED.values()), "method": DRAWN, "momentum": ("0", *SHORT)}
    frame = frame.sort_values(
        KEYS, key=lambda each: each.map(orders[str(each.name)].index), kind="stable"
    )
    return frame[fields]


def findings(gaps: pd.DataFrame) -> tuple[str, ...]:
    """Return how our runs lie beside the drawn curves under each momentum, in sentences."""
    parts = []
    for momentum, group in gaps.groupby("momentum"):
        off = group["difference"]
        one = f"1 curve: {off.median():+.2f} points"
        many = f"{len(group)} curves: median {off.median():+.2f} points"
        reach = f" ({off.min():+.2f} to {off.max():+.2f})"
        parts.append(f"momentum {momentum}, {one if len(group) == 1 else many + reach}")
    first, last = EARLY
    words = (
        f"Rounds {first} to {last}, ours minus the drawn curve (a log with momentum {LOGGED}):"
        f" {'; '.join(parts)}."
    )
    return (words,) if parts else ()


def gaps_in_words(gaps: pd.DataFrame) -> tuple[str, ...]:
    """Return the comparison of every curve, a note per data set; with two runs or more, the noise
    of a window between them.
    """
    lines = []
    for dataset, curves in gaps.groupby("dataset", sort=False):
        parts = []
        for method, each in curves.groupby("method", sort=False):
            words = "; ".join(
                f"momentum {row['momentum']} {row['difference']:+.2f} (rms {row['rms']:.2f}, "
                + (
                    f"{row['seeds']} runs, which deviate by {row['noise']:.2f})"
                    if row["seeds"] > 1
                    else "1 run)"
                )
                for row in each.to_dict("records")
            )
            parts.append(f"{method}: {words}")
        lines.append(f"Ours minus the drawn curve, {dataset}: {'. '.join(parts)}.")
    return tuple(lines)


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
