"""Claims on figures 4 and 7: the best quantiles, how many parameters they leave personal, and what
is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor, isfinite, isnan, nan

import pandas as pd

from repfl.paper_tables.core.claims.contrast import Contrast
from repfl.paper_tables.core.claims.sentences import (
    Sentence,
    all_met,
    in_words,
    judge,
    judge_propositions,
    runs_of,
)
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, claim
from repfl.paper_tables.core.statistics.verdict import Verdict
from repfl.paper_tables.fedobp.claims import PROPOSITIONS
from repfl.paper_tables.fedobp.settings import DATASETS, FOLDER, ORGANS, PRINTED, SWEPT

SCORES = ("I_G", "I_F", "I_O")
VERSIONS = ("as defined", "as logged")
SHAPES = {"cifar10": "billing-rgb-10", "cifar100": "billing-rgb-100"}
COUNT = "personalized_params_at_best"
NOT_RUN = "nowhere"


def fig4_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Return the claims of section V-D, and those on the score's equations."""
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
        _sweeps_met(data, evidence.scale),
        _stable(data, evidence.scale),
        _rise_and_fall(data, evidence.scale),
        *judge_propositions(pd.read_csv(FOLDER / "propositions.csv"), evidence.scale, PROPOSITIONS),
    )


def curve(data: pd.DataFrame, short: str, score: str, further: float = nan) -> pd.DataFrame:
    """Return a sweep as a table of one column, a row per quantile: ours as defined, theirs as
    logged. `further` is a quantile named in the text, whether swept or not.
    """
    line = data[(data["column"] == short) & (data["score"] == score)]
    longest = line.sort_values("rounds").drop_duplicates(["version", "q"], keep="last")
    ours, logged = (longest[longest["version"] == version].set_index("q") for version in VERSIONS)
    extra = set() if isnan(further) else {further}
    quantiles = sorted({*ours.index, *logged.index, *extra})
    frame = ours.reindex(index=quantiles, columns=["ours", "by_seed"])
    frame = frame.assign(printed=logged["printed"].reindex(quantiles), column=short)
    return frame.assign(row=[f"{q:g}" for q in quantiles]).reset_index(drop=True)


def _top(frame: pd.DataFrame, side: str) -> str:
    """Return where a curve is highest, in words."""
    values = frame.dropna(subset=side)
    if values.empty:
        return NOT_RUN
    top = values.iloc[int(values[side].astype(float).to_numpy().argmax())]
    return f"{top[side]:.2f} at q = {top['row']}"


def _optimum(
    evidence: Evidence,
    data: pd.DataFrame,
    setting: tuple[str, str],
    name: str,
    text: str,
    rows: pd.DataFrame,
    inside: Callable[[float], bool],
    further: float = nan,
) -> Claim:
    """Return the claim that a curve is highest at a quantile for which `inside` is true."""
    short, score = setting
    frame = curve(data, short, score, further)

    # over the quantiles that we have, and the named one: each other one lies below some good one
    swept = frame[frame["ours"].notna() | (frame["row"] == f"{further:g}")]["row"]
    good = [row for row in swept if inside(float(row))]
    rest = [row for row in swept if row not in good] if good else []
    sentence = Sentence(
        name,
        text,
        [
            [Contrast({(row, short): 1.0, (other, short): -1.0}, ties=True) for row in good]
            for other in rest
        ],
        least=1,
        place="V-D",
        sources=tuple(rows["source"]),
        remark=f"highest: ours {_top(frame, 'ours')}, logged {_top(frame, 'printed')}",
    )
    return judge(sentence, runs_of(frame), evidence.scale)


def _peak(evidence: Evidence, data: pd.DataFrame, short: str, score: str) -> Claim:
    rows = select(
        evidence.published,
        table="text V-D",
        dataset=PRINTED[short],
        method=score,
        metric="best_quantile",
    )
    bar = stated(rows)
    return _optimum(
        evidence,
        data,
        (short, score),
        f"peak-{short}-{score}",
        f"{score} is best at q = {bar:g} on {DATASETS[short]}",
        rows,
        lambda q: q == bar,
        bar,
    )


NEAR_SHARE = 5.0
"""Points within which a share given as `about` is met: half a step of the sweep."""


def _share(evidence: Evidence, data: pd.DataFrame, score: str) -> Claim:
    rows = select(evidence.published, table="text V-D", dataset="MNIST", method=score)
    bar, below = stated(rows), score == "I_O"

    def met(q: float) -> bool:
        share = round(100 * (1 - q), 9)
        return 0 < share < bar if below else abs(share - bar) <= NEAR_SHARE

    return _optimum(
        evidence,
        data,
        ("mnist", score),
        f"share-mnist-{score}",
        f"On MNIST {score} is best with {'less than' if below else 'about'} {bar:g} % personal"
        " parameters",
        rows,
        met,
    )


def _counts(evidence: Evidence, short: str) -> Claim:
    """Return the claim that the numbers of parameters in the text follow from its quantiles and the
    model's size.
    """
    fields = {"table": "text V-D", "dataset": PRINTED[short]}
    rows = select(evidence.published, setting="Figure 4", metric=COUNT, **fields)
    cells = pick(evidence, row="shape", column=SHAPES[short], done=True)
    answer, detail = None, "the run of the true model is missing"
    if len(cells):
        size = float(cells.iloc[0]["parameters"])
        quantiles = select(evidence.published, metric="best_quantile", **fields)
        exact = size * (1 - quantiles.set_index("method")["value"].astype(float))
        fits = {
            score: number in (floor(exact[score] + 1e-6), ceil(exact[score] - 1e-6))
            for score, number in zip(rows["method"], rows["value"], strict=True)
        }
        answer = all(fits.values())
        parts = (
            f"{score} {number:,.0f} {'is' if fits[score] else 'is not'} N (1 − q) ="
            f" {exact[score]:,.2f}"
            for score, number in zip(rows["method"], rows["value"], strict=True)
        )
        slip = "" if answer else "; 87,853 belongs to the N of CIFAR-10 (README, 7)"
        detail = f"N = {size:,.0f}: {'; '.join(parts)}{slip}"
    return claim(
        f"counts-{short}",
        f"The numbers of personal parameters on {DATASETS[short]} follow from the best quantiles",
        answer,
        detail,
        evidence.scale,
        place="V-D",
        sources=tuple(rows["source"]),
        exact=True,
    )


# -- beyond single sentences -----------------------------------------------------------------------


def _sweeps_met(data: pd.DataFrame, scale: str) -> Claim:
    """Return the claim on all logged sweeps; a point is reproduced, different or undecided."""
    logged = data[data["source"] != ""]
    counts = logged["verdict"].value_counts()
    good, bad = (int(counts.get(v, 0)) for v in (Verdict.REPRODUCED, Verdict.DIFFERS))
    words = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    bar = NINE_TENTHS * len(logged)
    return claim(
        "sweeps-met",
        "Nine tenths of the logged sweep points are reproduced",
        True if good >= bar else False if len(logged) - bad < bar else None,
        f"{len(logged)} logged points: {words}",
        scale,
        place="Figure 4",
        any_run=True,
        ours=True,
    )


NINE_TENTHS = 0.9


def _rise_and_fall(data: pd.DataFrame, scale: str) -> Claim:
    """Return the claim of section V-D that with the quantile accuracy first rises, then falls."""

    def over_ends(version: str, side: str) -> dict[str, float]:
        lines = data[(data["version"] == version) & data[side].notna()]
        lines = lines.sort_values("rounds").drop_duplicates(["column", "score", "q"], keep="last")
        gaps = {}
        for (short, score), line in lines.sort_values("q").groupby(["column", "score"]):
            values = line[side].astype(float).to_numpy()
            if len(values) > 2:
                gaps[f"{DATASETS[str(short)]} {score}"] = values[1:-1].max() - values[[0, -1]].max()
        return gaps

    ours, logged = over_ends("as defined", "ours"), over_ends("as logged", "printed")
    return claim(
        "rise-and-fall",
        "Accuracy generally first improves with the quantile and then declines (highest between the"
        " ends of more than half of the sweeps)",
        all_met(ours, lambda gap: gap > 0, share=0.5001),
        f"highest point minus the higher end, ours (1 seed): {in_words(ours, signed)};"
        f" logged: {in_words(logged, signed)}",
        scale,
        place="V-D",
    )


def _stable(data: pd.DataFrame, scale: str) -> Claim:
    """Return the claim on the last sentence of section V-D, on the organ data."""
    ours, logged = (
        _spreads(data[data["q"] < 1], version, side)
        for version, side in (("as defined", "ours"), ("as logged", "printed"))
    )
    our_words, logged_words = (
        ", ".join(f"{DATASETS[c]} {s} {value:.2f}" for (c, s), value in side.items())
        for side in (ours, logged)
    )
    return claim(
        "stable-on-organs",
        "On both organ data sets I_O is more stable over the quantiles below one than I_G and I_F",
        _obp_is_lowest(ours),
        "standard deviation over quantiles, ours (1 seed): "
        f"{our_words or 'no run'}; logged: {logged_words}",
        scale,
        place="V-D",
        printed=_obp_is_lowest(logged),
    )


def _spreads(data: pd.DataFrame, version: str, side: str) -> dict[tuple[str, str], float]:
    """Return the standard deviation over quantiles by organ data set and score."""
    lines = data[(data["version"] == version) & data["column"].isin(ORGANS)].dropna(subset=[side])
    deviations = lines.astype({side: float}).groupby(["column", "score"])[side].std(ddof=1)
    wide = deviations.unstack("score")
    values = {(str(c), str(s)): float(wide[s][c]) for c in wide.index for s in wide}
    return {place: value for place, value in values.items() if isfinite(value)}


def _obp_is_lowest(spreads: Mapping[tuple[str, str], float]) -> bool | None:
    try:
        return all(spreads[c, "I_O"] < min(spreads[c, "I_G"], spreads[c, "I_F"]) for c in ORGANS)
    except KeyError:
        return None


# -- section V-G, figure 7 -------------------------------------------------------------------------

STABLE = 0.9
"""Ratios up to here are called stable."""


def fig7_claims(
    evidence: Evidence, data: pd.DataFrame, logged: pd.DataFrame, shares: set[float]
) -> tuple[Claim, ...]:
    """Return claims on the uplink, of which these shares of a model were measured, and on where
    accuracy is stable, in ours and in the logged sweep.
    """
    return _uplink(evidence, shares), _drop(evidence, data, logged)


def _uplink(evidence: Evidence, shares: set[float]) -> Claim:
    measured = ", ".join(f"{share:g}" for share in sorted(shares)) or "no run"
    return claim(
        "uplink-whole-model",
        "Every participant uploads the whole model",
        shares == {1.0} if shares else None,
        f"uplink as a share of N per client and round, measured: {measured}",
        evidence.scale,
        place="V-G",
        sources=tuple(select(evidence.published, metric="uplink_per_client_round")["source"]),
        exact=True,
    )


def _drop(evidence: Evidence, data: pd.DataFrame, logged: pd.DataFrame) -> Claim:
    """Return the claim that accuracy is higher at every ratio up to 0.9 than at 1, in the logged
    sweep and in ours.
    """
    rows = select(evidence.published, table="text V-G", metric="stable_downlink_ratio_range")
    in_logs, logged_words = _drops(logged, "printed")
    in_ours, our_words = _drops(data, "ours")
    return claim(
        "stable-to-nine-tenths",
        "On most data sets accuracy at ratios of 0 to 0.9 lies above that at 1.0",
        in_ours,
        f"ours (1 seed): {our_words or 'no complete sweep'}; logged: {logged_words}",
        evidence.scale,
        place="V-G",
        printed=in_logs,
        sources=tuple(rows["source"]),
    )


def _drops(data: pd.DataFrame, side: str) -> tuple[bool | None, str]:
    """Per data set the range of accuracies up to 0.9, and the accuracy at one."""
    parts, holds = [], []
    for short in SWEPT:
        line = data[data["column"] == short].dropna(subset=[side])
        inner, end = (
            line[line["q"] <= STABLE][side].astype(float),
            line[line["q"] == 1][side].astype(float),
        )
        low, high, last = (
            (inner.min(), inner.max(), end.iloc[-1]) if len(inner) and len(end) else (nan, nan, nan)
        )
        if isfinite(low):
            holds.append(bool(low > last))
            parts.append(f"{DATASETS[short]} {low:.2f} to {high:.2f}, then {last:.2f}")
    return (2 * sum(holds) > len(holds) if holds else None), "; ".join(parts)
