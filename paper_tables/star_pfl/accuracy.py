"""Table 2: accuracy of six methods on two tasks at three levels of heterogeneity."""

from __future__ import annotations

from math import isfinite

import pandas as pd
from scipy.special import beta

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.evidence import Evidence, folded
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.result import Claim, Table, claim
from repfl.paper_tables.core.statistics.intervals import spread
from repfl.paper_tables.core.tables import Place
from repfl.paper_tables.star_pfl.settings import (
    ALPHAS,
    FOLDER,
    KEYS,
    PAPER,
    PLACES,
    PRINTING,
    ROWS,
    STAND_IN,
    columns,
    in_percent,
    scale_note,
)

SCORED = (
    "Scored after local training and before aggregation, best round on the test images: what the"
    " code does for Star-PFL, here for all methods (README, 12 and 19). The added rows take the"
    " same runs' round by validation accuracy, before aggregation or, as the code base of the"
    " baselines does, after it."
)
VARIED = (
    "Further added rows are runs of their own at α = 0.1: what the code does beyond the text, and"
    " baselines as their own code has them."
)
MILD = (
    "Each pair of clients jointly holds an IID tenth of the images, at every α (README, 21). This"
    " may be why the printed accuracy of FedAvg depends little on α: inferred, without a run."
)


def table2(evidence: Evidence) -> Table:
    """Six methods on six settings."""
    evidence = folded(in_percent(evidence), "-unit", "-400")
    return forms.table(
        evidence,
        (PAPER, "table2"),
        "Table 2: test accuracy under different data heterogeneities",
        "Personalised accuracy of six methods under pairwise Dirichlet heterogeneity.",
        number="2",
        rows=ROWS,
        columns=columns(evidence),
        places=PLACES | {STAND_IN: Place("", "")},
        printing=PRINTING,
        compared=True,
        notes=(SCORED, VARIED, MILD, *scale_note(evidence)),
        claims=lambda frame: claims(evidence, frame),
    )


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """The sentences of section 4.2 and of the abstract on accuracy."""
    return (
        *judge_all(evidence, FOLDER, "table2", frame),
        _skew(frame, evidence.scale),
        check(pd.read_csv(FOLDER / "propositions.csv"), evidence.scale),
    )


def check(numbers: pd.DataFrame, scale: str) -> Claim:
    """Return the claim of section 3.3 on the stability check, from
    `studies/propositions.py`: accuracy with the check minus that without, paired by seed,
    round by round.
    """
    value = numbers.set_index(["quantity", "round", "seed"])["value"]
    gains = value["accuracy, with the check"] - value["accuracy, without the check"]
    by_round = {round_: spread(list(each)) for round_, each in gains.groupby("round")}
    answers = [None if each.low <= 0 <= each.high else each.mean > 0 for each in by_round.values()]
    rounds_words = ", ".join(
        f"round {round_} {signed(each.mean)} ± {each.high - each.mean:.2f}"
        for round_, each in by_round.items()
    )
    seeds = min(each.count for each in by_round.values())
    return claim(
        "check-keeps-accuracy",
        "On Fashion-MNIST at the reduced scale: the stability check keeps accuracy from falling",
        False if False in answers else None if None in answers else True,
        f"points with the check minus without, 95 % intervals over {seeds} seeds: {rounds_words}",
        scale,
        place="3.3",
        seeds=seeds,
        exact=True,
        ours=True,
    )


def _skew(frame: pd.DataFrame, scale: str) -> Claim:
    """Return the claim on which α is more skewed, by the expected total variation between a client
    and all: |2p - 1| / 2 for p ~ Beta(α, α).
    """
    text = "The larger α, the more unbalanced is the data distribution among the clients"
    apart = {alpha: unevenness(float(alpha)) / 2 for alpha in ALPHAS}
    distances = ", ".join(f"{value:.2f} at α = {alpha}" for alpha, value in apart.items())
    floors = frame.groupby("column")["floor"].mean()
    baselines = {
        alpha: float(floors.reindex([key for (_, a), key in KEYS.items() if a == alpha]).mean())
        for alpha in ALPHAS
    }
    detail = f"total variation between a client and all: {distances}"
    if all(map(isfinite, baselines.values())):
        detail += f"; majority classes give {', '.join(f'{v:.1f} %' for v in baselines.values())}"
    detail += ". By this measure a smaller α is more unbalanced"
    answer = apart["1"] > apart["0.01"]
    return claim("larger-alpha-unbalanced", text, answer, detail, scale, place="4.1", exact=True)


def unevenness(alpha: float) -> float:
    """Mean of |2p - 1| for the share p ~ Beta(α, α) of a class that goes to one client of a
    pair.
    """
    return float(2 ** (1 - 2 * alpha) / alpha / beta(alpha, alpha))
