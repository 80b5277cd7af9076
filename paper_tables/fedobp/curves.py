"""Figures 2, 3 and 5: accuracy against rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import all_met, in_words
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, Column, Figure, claim
from repfl.paper_tables.core.statistics.verdict import MARGIN
from repfl.paper_tables.fedobp import ablation, accuracy, convergence, logs, trajectories
from repfl.paper_tables.fedobp.drawn_curves import WINDOW, smooth
from repfl.paper_tables.fedobp.settings import DATASETS, DRAWN, OURS, PAPER, PRINTED, SAME_DATA, key

COHORT = (
    "Lines: accuracy of the round's participants before they train, pooled, smoothed by a"
    " Savitzky-Golay filter of 20 rounds and order 2, as the published script does; ten clients are"
    " a noisy sample of a hundred. The tables score all clients. README, 30."
)
ROUND = "round"


def cohort_curves(
    evidence: Evidence, labels: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Return column, label, round, value as stored, and smoothed as drawn."""
    data = forms.accuracy_curves(evidence, labels, columns, "start/pooled")
    data = data.rename(columns={"mean": "value"}).drop(columns=["low", "high"])
    data = data.sort_values(["column", "label", ROUND], kind="stable")
    if data.empty:
        return data.assign(mean=[])
    lines = data.groupby(["column", "label"])["value"]
    smoothed = lines.transform(lambda part: smooth(part.to_numpy(float)))
    return data.assign(mean=smoothed).reset_index(drop=True)


def beside_logs(ours: pd.DataFrame, alpha: str, names: Mapping[str, str]) -> pd.DataFrame:
    """Return our curves, and those of the authors' logs under our labels; both with their data
    set.
    """
    shorts = {key(short, alpha, tail): short for short in DATASETS for tail in ("", "-m0.7")}
    logged = logs.curves(f"Dir({alpha})")
    logged = logged[logged["method"].isin(list(names))]
    places = {printed: short for short, printed in PRINTED.items()}
    logged = logged.assign(
        kind=plots.LOG, short=logged["dataset"].map(places), label=logged["method"].map(names)
    )
    own = ours.assign(short=ours["column"].map(shorts))
    own = own if "kind" in own else own.assign(kind="ours")
    both = pd.concat([own, logged.drop(columns=["dataset", "method"])], ignore_index=True)
    return both.sort_values(["kind", "short", "label", ROUND], kind="stable", ignore_index=True)


LINES = ("short", "kind", "label")
LOGGED = (
    "Hollow: the authors' logs, accuracy of all clients at the four evaluations of 400 rounds, with"
    " momentum 0.7, one seed (`author_logs.csv`). Ours is accuracy of a round's participants: the"
    " two are not to be subtracted."
)
ANOTHER_SETTING = (
    "The curves of this figure in the authors' repository are their logs, smoothed, with momentum"
    " 0.7. Our lines are the runs of Tables III and IV, without momentum: another setting. README,"
    " 2."
)
SHORT = (
    f"Runs of fewer than {WINDOW} scored rounds are not smoothed; of those below the paper scale,"
    " which are far shorter than 400 rounds, lines of two points are in the data and not drawn."
)


def _figure(
    evidence: Evidence,
    name: str,
    title: str,
    what: str,
    data: pd.DataFrame,
    styles: Mapping[str, Mapping[str, Any]],
    *,
    notes: Sequence[str],
    claims: Sequence[Claim] = (),
    findings: tuple[str, ...] = (),
) -> Figure:
    """A panel per data set with the authors' logs and ours in the same axes."""
    if evidence.scale == "smoke":  # digits stand beside no log
        data = data[data["kind"] != plots.LOG]
    defined = data["kind"].str.endswith("as defined")
    drawn = data.assign(label=data["label"] + np.where(defined, ", as defined", ""))
    if evidence.scale != "smoke":
        points = drawn.groupby(list(LINES))[ROUND].transform("size")
        drawn = drawn[(drawn["kind"] == plots.LOG) | (points > 2)]
    labels = list(styles)
    return forms.figure(
        evidence,
        (PAPER, name),
        title,
        what,
        lambda sheet: plots.curve_panels(
            sheet, drawn, forms.titles(evidence, DATASETS), labels, by="short", styles=styles
        ),
        data,
        notes=(COHORT, LOGGED, SHORT, *forms.at_scale(evidence, smoke=SAME_DATA), *notes),
        claims=claims,
        findings=findings,
    )


# -- figures 2 and 3 -------------------------------------------------------------------------------


def fig2(evidence: Evidence) -> Figure:
    """Dir(0.1)."""
    return _convergence(evidence, "fig2", "0.1", fig2_claims)


def fig3(evidence: Evidence) -> Figure:
    """Dir(0.5)."""
    return _convergence(evidence, "fig3", "0.5", fig3_claims)


def _convergence(
    evidence: Evidence,
    name: str,
    alpha: str,
    claims: Callable[[Evidence, pd.DataFrame], tuple[Claim, ...]],
) -> Figure:
    columns = [key(short, alpha) for short in DATASETS]
    ours = cohort_curves(evidence, DRAWN, columns)
    title = f"Figure {name[-1]}: convergence at Dir({alpha})"
    beside = trajectories.compared(evidence, alpha)
    notes = (COHORT, *trajectories.notes(beside), accuracy.COMPAT)
    missing = forms.missing(evidence, DRAWN, columns)
    if evidence.scale != "paper":  # other clients: no curve of the paper stands beside them
        return forms.by_round(
            evidence,
            (PAPER, name),
            title,
            f"{OURS} and its baselines at Dir({alpha}).",
            rows=DRAWN,
            columns=[Column(key(short, alpha), text) for short, text in DATASETS.items()],
            data=ours,
            own=OURS,
            notes=(*forms.at_scale(evidence, smoke=SAME_DATA), *notes),
            claims=claims(evidence, ours),
        )
    return forms.figure(
        evidence,
        (PAPER, name),
        title,
        f"{OURS} and its baselines at Dir({alpha}): every curve of ours beside that of the figure.",
        partial(trajectories.draw, evidence=evidence, alpha=alpha),
        trajectories.data(evidence, alpha),
        notes=(ANOTHER_SETTING, *notes, *missing),
        claims=claims(evidence, ours),
        findings=trajectories.findings(beside),
    )


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
    count = select(evidence.published, metric="number_of_methods_in_figures_2_3")
    drawn = [name for name in DRAWN if name != OURS]
    claims = [
        shared_claims.setting(
            evidence.scale,
            ("eleven-baselines-drawn", "FedOBP is drawn with eleven baselines", "V-C"),
            len(drawn) == stated(count),
            f"{len(drawn)} are drawn",
            tuple(count["source"]),
        )
    ]
    for name, (words, short, methods, metric) in BOUNDS.items():
        rows = select(evidence.published, table="text V-C", dataset=PRINTED[short], metric=metric)
        lines = data[data["column"] == key(short)]
        tops = lines.groupby("label")["mean"].max().reindex(list(methods))
        heights = {str(m): float(top) for m, top in tops.items()}
        sign = -1 if metric == "accuracy_upper_bound" else 1
        claims.append(
            claim(
                name,
                words,
                all_met(heights, partial(_clear, sign=sign, bound=stated(rows))),
                f"highest points of the curves as drawn (1 seed): {in_words(heights)}",
                evidence.scale,
                place="V-C",
                sources=tuple(rows["source"]),
            )
        )
    return (*claims, *convergence.claims(evidence, "fig2", "0.1"))


def _clear(value: float, sign: int, bound: float) -> bool | None:
    """Whether a height lies on the right side of a bound; within a point one run cannot tell."""
    gap = sign * (value - bound)
    return gap > 0 if abs(gap) > MARGIN else None


def fig3_claims(evidence: Evidence, _: pd.DataFrame) -> tuple[Claim, ...]:
    """Section V-C on Dir(0.5)."""
    rows = select(evidence.published, metric="rounds_to_near_optimum")
    logged = logs.curves("Dir(0.5)").query("method == @OURS")
    below, filed = {}, {}
    for short in ("cifar10", "cifar100"):
        done = pick(evidence, row=OURS, column=key(short, "0.5"), done=True)
        curve = evidence.rounds(list(done["id"]), "post_agg/pooled")
        scored = 100 * curve.groupby(ROUND)["value"].mean()
        below[DATASETS[short]] = _below(scored, stated(rows))
        theirs = logged[logged["dataset"] == PRINTED[short]].set_index(ROUND)["mean"]
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
    return near, *convergence.claims(evidence, "fig3", "0.5")


def _below(scored: pd.Series, until: float) -> float:
    """How far the best so far lies below the best of all."""
    return float(scored.max() - scored[scored.index <= until].max()) if len(scored) else nan


# -- figure 5 --------------------------------------------------------------------------------------


WIDE = {"linewidth": 3.2, "alpha": 0.45}
"""So that NoNorm shows on both sides of GlobalNorm, which lies on top of it."""


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
    return _figure(
        evidence,
        "fig5",
        "Figure 5: convergence under four normalisations",
        "FedOBP under four normalisations, in the authors' logs and ours. Solid: as logged by the"
        " authors; dashed: as defined. NoNorm and GlobalNorm coincide.",
        beside_logs(ours, "0.1", {f"{OURS} {name}": name for name in ablation.NORMS}),
        {
            f"{name}{way}": {**figure_style.look(index, dash), **(WIDE if index == 0 else {})}
            for dash, way in enumerate(("", ", as defined"))
            for index, name in enumerate(ablation.NORMS)
        },
        notes=(ablation.TWICE, *forms.missing(evidence, ablation.NORMS, as_logged)),
        claims=convergence.norm_claims(evidence),
    )
