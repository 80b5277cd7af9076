"""What the text says about the best quantiles of figure 4, and how many parameters these leave
personal.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, isfinite, nan

import numpy as np
import pandas as pd

from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.core.verdict import Verdict
from repfl.paper_tables.fedobp import text
from repfl.paper_tables.fedobp.settings import DATASETS, PRINTED

SCORES = ("I_G", "I_F", "I_O")
SHAPES = {"cifar10": "billing-rgb-10", "cifar100": "billing-rgb-100"}
COUNT = "personalized_params_at_best"
NOT_RUN = "no run of the sweep"


def fig4_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Section V-D."""
    peaks = tuple(
        _peak(evidence, data, short, score)
        for short in ("cifar10", "cifar100", "fmnist")
        for score in SCORES
    )
    shares = tuple(_share(evidence, data, score) for score in SCORES)
    return (
        *peaks,
        *shares,
        *(_counts(evidence, short) for short in SHAPES),
        _met(evidence, data),
        _stable(evidence, data),
    )


def best(
    data: pd.DataFrame, short: str, score: str, version: str, side: str
) -> tuple[float, float]:
    """The quantile with the highest accuracy of a curve (the first of equals), and that
    accuracy.
    """
    line = (
        data[(data["column"] == short) & (data["score"] == score) & (data["version"] == version)]
        .dropna(subset=[side])
        .sort_values("q")
    )
    if line.empty:
        return nan, nan
    place = int(line[side].astype(float).to_numpy().argmax())
    return float(line["q"].iloc[place]), float(line[side].iloc[place])


def _found(
    evidence: Evidence, data: pd.DataFrame, short: str, score: str
) -> tuple[float, float, str]:
    """The best quantile of ours and of the logs, and both in words."""
    ours, reached = best(data, short, score, "as defined", "ours")
    logged, printed = best(data, short, score, "as logged", "published")
    said = (
        f"ours at the {evidence.scale} scale: {reached:.2f} at q = {ours:g}"
        if isfinite(ours)
        else f"{NOT_RUN} at the {evidence.scale} scale"
    )
    return (
        ours,
        logged,
        said + (f"; logged: {printed:.2f} at q = {logged:g}" if isfinite(logged) else ""),
    )


def _peak(evidence: Evidence, data: pd.DataFrame, short: str, score: str) -> Claim:
    rows = text.told(evidence, "V-D", dataset=PRINTED[short], method=score, metric="best_quantile")
    stated = text.number(rows)
    ours, logged, said = _found(evidence, data, short, score)
    words = f"{score} is best at q = {stated:g} on {DATASETS[short]}"
    return text.claim(
        words,
        rows,
        ours == stated if evidence.scale == "paper" and isfinite(ours) else None,
        said,
        logged == stated,
    )


NEAR_SHARE = 5.0
"""Points within which a share that the text gives as `about` is met: half a step of the sweep."""


def _share(evidence: Evidence, data: pd.DataFrame, score: str) -> Claim:
    rows = text.told(evidence, "V-D", dataset="MNIST", method=score)
    stated, below = text.number(rows), score == "I_O"
    ours, logged, said = _found(evidence, data, "mnist", score)

    def met(q: float) -> bool:
        share = 100 * (1 - q)
        return share < stated if below else abs(share - stated) <= NEAR_SHARE

    words = (
        f"On MNIST {score} is best with {'less than' if below else 'about'} {stated:g} % personal"
        " parameters"
    )
    return text.claim(
        words,
        rows,
        met(ours) if evidence.scale == "paper" and isfinite(ours) else None,
        said,
        met(logged),
    )


def _counts(evidence: Evidence, short: str) -> Claim:
    """Whether the numbers of parameters in the prose follow from its quantiles and the model's
    size.
    """
    rows = text.told(evidence, "V-D", dataset=PRINTED[short], setting="Figure 4", metric=COUNT)
    words = (
        f"The numbers of personal parameters on {DATASETS[short]} follow from the best quantiles"
    )
    cells = pick(evidence, row="shape", column=SHAPES[short], done=True)
    if cells.empty or rows.empty:
        return text.claim(words, rows, None, "the run of the true model is missing")
    size = float(cells.iloc[0]["parameters"])
    quantiles = _quantiles(evidence, short)
    parts, holds = [], True
    for score, stated in zip(rows["method"], rows["value"], strict=True):
        exact = size * (1 - quantiles.get(score, nan))
        fits = isfinite(exact) and stated in (floor(exact + 1e-6), ceil(exact - 1e-6))
        holds &= fits
        parts.append(f"{score} {stated:,.0f} {'is' if fits else 'is not'} N (1 − q) = {exact:,.2f}")
    detail = f"N = {size:,.0f}: {'; '.join(parts)}" + (
        "" if holds else "; 87,853 belongs to the N of CIFAR-10 (README, 7)"
    )
    return text.claim(words, rows, holds, detail)


def _quantiles(evidence: Evidence, short: str) -> Mapping[str, float]:
    rows = text.told(evidence, "V-D", dataset=PRINTED[short], metric="best_quantile")
    return dict(zip(rows["method"], rows["value"], strict=True))


# -- beyond single sentences -----------------------------------------------------------------------


def _met(evidence: Evidence, data: pd.DataFrame) -> Claim:
    """The logged sweeps as a whole."""
    logged = data[data["source"] != ""]
    counts = logged["verdict"].value_counts()
    good, known = int(counts.get(Verdict.REPRODUCED, 0)), int(logged["ours"].notna().sum())
    told = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    holds = (
        good >= 0.9 * len(logged)
        if evidence.scale == "paper" and known == len(logged) and len(logged)
        else None
    )
    return Claim(
        "Nine tenths of the logged sweep points are reproduced",
        holds,
        f"{len(logged)} logged points: {told}",
    )


def _stable(evidence: Evidence, data: pd.DataFrame) -> Claim:
    """The last sentence of section V-D on the organ data."""
    words = (
        "On both organ data sets I_O is more stable over the quantiles below one than I_G and I_F"
    )
    ours, logged = (
        _spreads(data[data["q"] < 1], version, side)
        for version, side in (("as defined", "ours"), ("as logged", "published"))
    )
    printed = _least(logged)
    told = "standard deviation over quantiles, logged: " + _spoken(logged)
    if not ours:
        return Claim(words, None, f"{NOT_RUN} at the {evidence.scale} scale; {told}", printed)
    return Claim(
        words,
        _least(ours),
        f"standard deviation over quantiles at the {evidence.scale} scale: {_spoken(ours)}; {told}",
        printed,
    )


Spreads = Mapping[tuple[str, str], float]


def _spreads(data: pd.DataFrame, version: str, side: str) -> Spreads:
    kept = data[(data["version"] == version) & data["column"].isin(["organa", "organc"])].dropna(
        subset=[side]
    )
    found = kept.groupby(["column", "score"])[side].agg(
        lambda values: float(np.std(values.astype(float), ddof=1))
    )
    return {
        (str(place[0]), str(place[1])): float(value)
        for place, value in zip(found.index.tolist(), found, strict=True)
    }


def _least(spreads: Spreads) -> bool | None:
    try:
        return all(
            spreads[c, "I_O"] < min(spreads[c, "I_G"], spreads[c, "I_F"])
            for c in ("organa", "organc")
        )
    except KeyError:
        return None


def _spoken(spreads: Spreads) -> str:
    return ", ".join(f"{DATASETS[c]} {s} {v:.2f}" for (c, s), v in spreads.items())
