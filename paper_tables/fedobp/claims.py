"""Claims of FedOBP's text on its protocol and on Tables III and IV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.conditions import OPEN, best, cell, every, led_by, some
from repfl.paper_tables.core.claims.sentences import Proposition, Sentence, judge, judge_all
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.core.statistics.verdict import MARGIN
from repfl.paper_tables.fedobp import finetuned
from repfl.paper_tables.fedobp.settings import (
    ALPHAS,
    BASELINES,
    DATASETS,
    GLOBAL,
    METHODS,
    ORGAN_KEYS,
    OURS,
    PLACES,
    PRINTED,
    TABLE3,
    TABLE4,
    key,
)

PRINTED_SLACK = 0.0051
"""Two numbers rounded to two decimals differ by a third that is off by no more than this from a
rounded one.
"""
SETTINGS = {
    "rounds": "recipe.training.rounds",
    "clients": "recipe.clients",
    "participation_rate": "recipe.participation",
    "learning_rate": "recipe.training.lr",
    "batch_size": "recipe.training.batch",
    "local_epochs": "recipe.training.epochs",
    "independent_runs": "runs",
}


def protocol_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of section V-A: the protocol, and the number of compared methods."""
    main = evidence.cells[
        evidence.cells["row"].isin(METHODS) & evidence.cells["column"].isin(list(PLACES))
    ]
    count = select(evidence.published, metric="number_of_compared_methods")
    printed = set(frame.loc[frame["source"] != "", "row"]) & set(BASELINES)
    same = len(printed) == stated(count)
    return (
        shared_claims.protocol(
            evidence,
            main.assign(runs=main["seed"].nunique()),
            "protocol",
            "400 rounds, 100 clients, a tenth per round, SGD at 0.01, batches of 32, 5 local"
            " epochs, four runs",
            SETTINGS,
            select(evidence.published, table="text V-A", method="all"),
        ),
        Claim(
            "eight-compared",
            "FedOBP is compared with eight methods",
            same,
            f"the tables have {len(printed)} baselines with Local-Only and FedAvg; the text lists"
            " nine names (README, 12)",
            evidence.scale,
            same,
            tuple(count["source"]),
            free=True,
        ),
    )


SECOND = "margin_over_second"
STATED = {
    ("cifar10", "0.1", SECOND): "surpasses the second-best method by 0.59 points",
    ("cifar100", "0.1", SECOND): "surpasses the second-best method by 8.28 points",
    ("emnist", "0.1", SECOND): "surpasses the second-best method by 0.16 points",
    ("svhn", "0.1", "margin_over_FedPer"): "improves upon FedPer by 0.87 points",
    ("mnist", "0.1", SECOND): "surpasses the second-best method by 0.31 points",
    ("fmnist", "0.1", SECOND): "surpasses the second-best method by 0.65 points",
    ("fmnist", "0.5", "margin_over_FLOCO"): "improves upon FLOCO by 1.73 points",
    ("organa", "0.1", "gap_to_best"): "is 0.16 points below the best result",
    ("organa", "0.5", "ties_best_with_pFedFDA"): "ties with pFedFDA for the best result",
}
RIVALS = {
    "margin_over_FedPer": "FedPer",
    "margin_over_FLOCO": "FLOCO",
    "ties_best_with_pFedFDA": "pFedFDA",
}


def margins(evidence: Evidence, frame: pd.DataFrame, shorts: Sequence[str]) -> tuple[Claim, ...]:
    """Return one claim per margin of section V-B, over the best other method or one rival."""
    sentences = []
    for (short, alpha, metric), words in STATED.items():
        if short not in shorts:
            continue
        rows = select(
            evidence.published,
            table="text V-B",
            dataset=PRINTED[short],
            setting=f"Dir({alpha})",
            metric=metric,
        )
        column, rivals = key(short, alpha), [RIVALS[metric]] if metric in RIVALS else BASELINES
        leads = [cell(OURS, column) - cell(rival, column) for rival in rivals]
        sentences.append(
            Sentence(
                f"margin-{short}-{alpha}",
                f"FedOBP {words} on {DATASETS[short]}, Dir({alpha})",
                led_by(leads, stated(rows), slack=PRINTED_SLACK, margin=MARGIN),
                sources=tuple(rows["source"]),
                about=leads,
                full_scale_only=True,
            )
        )
    return judge_all(frame, evidence.scale, sentences)


def table3_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of section V-B on Table III."""
    everywhere = [key(short, alpha) for short in TABLE3 for alpha in ALPHAS]
    lead = Sentence(
        "best-in-table3",
        "FedOBP is best on all four data sets at both levels",
        best(OURS, BASELINES, everywhere),
    )
    first = judge(frame, evidence.scale, lead)
    tuned = finetuned.claim(evidence.scale)
    return *protocol_claims(evidence, frame), first, *margins(evidence, frame, TABLE3), tuned


def table4_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of section V-B on Table IV, and whether its organ columns measure learning."""
    light = shared_claims.same_work(
        evidence,
        "no-work-at-clients",
        "The score adds nothing to the clients' computation, since the server computes it (V-G; at"
        " most 1 % more multiply-adds of a round than FedAvg)",
        [(OURS, GLOBAL)],
        {key(short, a): f"{DATASETS[short]}, Dir({a})" for short in TABLE4 for a in ALPHAS},
        1.01,
    )
    return *margins(evidence, frame, TABLE4), _learning(frame, evidence.scale), light


def _learning(frame: pd.DataFrame, scale: str) -> Claim:
    """Return the claim that the organ columns rise above a constant prediction; the floor is that
    of the true data, available at the paper scale.
    """
    own = frame[frame["row"].isin(METHODS)].assign(floor=frame["floor"].astype(float))
    floors = own.groupby("column")["floor"].mean().reindex(list(ORGAN_KEYS))
    has_floors = scale != "smoke" and bool(floors.notna().all())
    above = [
        some(cell(row, column) - float(floors[column]) > 1.0 for row in METHODS)
        for column in ORGAN_KEYS
        if has_floors
    ]
    sentence = Sentence(
        "organs-measure-learning",
        "The organ columns measure learning: the best method lies more than a point above"
        " predicting each client's most frequent class",
        every(above) if has_floors else OPEN,
        own=True,
        remark="; ".join(
            f"{column}: floor {floors[column]:.2f}"
            if has_floors
            else f"{column}: the floor needs the organ data and the paper's clients"
            for column in ORGAN_KEYS
        ),
    )
    return judge(frame, scale, sentence)


FOLDER = Path(__file__).parent
GAP, RANK = "cosine of gap and global gradient", "rank correlation of score and true loss change"
ASSUMED = "clients start from the server's model: "
PROPOSITIONS = (
    Proposition(
        "gap-is-gradient",
        "the global gradient is about θ_i − θ_g (equation 39), in rounds of FedOBP",
        GAP,
    ),
    Proposition(
        "gap-is-gradient-as-assumed",
        "the global gradient is about θ_i − θ_g (equation 39), if all clients start from θ_g, as"
        " section IV assumes",
        ASSUMED + GAP,
    ),
    Proposition(
        "score-ranks",
        "the score (equation 19) ranks parameters by what their replacement costs, in rounds of"
        " FedOBP",
        RANK,
    ),
    Proposition(
        "score-ranks-as-assumed",
        "the score (equation 19) ranks parameters by what their replacement costs, if all clients"
        " start from θ_g",
        ASSUMED + RANK,
    ),
)
"""Sections III-C and IV, as `studies/propositions.py` tries them."""
