"""FedOBP's sentences on its protocol, on Tables III and IV, and on the score's equations."""

from __future__ import annotations

from math import isfinite

import pandas as pd

from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.contrast import Contrast
from repfl.paper_tables.core.claims.sentences import (
    Proposition,
    Sentence,
    judge,
    judge_all,
    printed_cells,
    runs_of,
)
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, claim
from repfl.paper_tables.fedobp.settings import (
    ALPHAS,
    BASELINES,
    DATASETS,
    FOLDER,
    GLOBAL,
    METHODS,
    ORGANS,
    OURS,
    PLACES,
    TABLE4,
    key,
)

ORGAN_COLUMNS = [key(short, alpha) for short in ORGANS for alpha in ALPHAS]
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
            (
                "protocol",
                "400 rounds, 100 clients, a tenth per round, SGD at 0.01, batches of 32, 5 local"
                " epochs, four runs",
                "V-A",
            ),
            SETTINGS,
            select(evidence.published, table="text V-A", method="all"),
        ),
        claim(
            "eight-compared",
            "FedOBP is compared with eight methods",
            same,
            f"the tables have {len(printed)} baselines with Local-Only and FedAvg; the text lists"
            " nine names (README, 12)",
            evidence.scale,
            place="V-A",
            printed=same,
            sources=tuple(count["source"]),
            exact=True,
        ),
    )


def table3_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of sections V-A and V-B on Table III."""
    claims = judge_all(evidence, FOLDER, "table3", frame)
    return *protocol_claims(evidence, frame), *claims


def table4_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of section V-B on Table IV, and whether its organ columns measure learning."""
    light = shared_claims.same_work(
        evidence,
        (
            "no-work-at-clients",
            "The score adds nothing to the clients' computation, since the server computes it (at"
            " most 1 % more multiply-adds of a round than FedAvg)",
            "V-G",
        ),
        [(OURS, GLOBAL)],
        {key(short, a): f"{DATASETS[short]}, Dir({a})" for short in TABLE4 for a in ALPHAS},
        1.01,
    )
    claims = judge_all(evidence, FOLDER, "table4", frame)
    return *claims, _learning(frame, evidence.scale), light


def _learning(frame: pd.DataFrame, scale: str) -> Claim:
    """Return the claim that the organ columns rise above a constant prediction; the floor is that
    of the true data, available at the paper scale.
    """
    own = frame[frame["row"].isin(METHODS)].assign(floor=frame["floor"].astype(float))
    floors = own.groupby("column")["floor"].mean().reindex(list(ORGAN_COLUMNS))
    known = {str(column): float(floor) for column, floor in floors.items() if scale != "smoke"}
    sentence = Sentence(
        "organs-measure-learning",
        "The organ columns measure learning: the best method lies more than a point above"
        " predicting each client's most frequent class",
        [
            [Contrast({(row, column): 1.0}, floor + 1.0) for row in METHODS]
            for column, floor in known.items()
            if isfinite(floor)
        ],
        least=1,
        place="Table IV",
        remark="; ".join(
            f"{column}: floor {known[column]:.2f}"
            if isfinite(known.get(column, float("nan")))
            else f"{column}: the floor needs the organ data and the paper's clients"
            for column in ORGAN_COLUMNS
        ),
        ours=True,
    )
    whole = len(sentence.groups) == len(ORGAN_COLUMNS)
    cells = frame if whole else frame.iloc[:0]
    return judge(sentence, runs_of(cells), scale, printed_cells(cells))


GAP, RANK = "cosine of gap and global gradient", "rank correlation of score and true loss change"
ASSUMED = "clients start from the server's model: "
PROPOSITIONS = (
    Proposition(
        "gap-is-gradient",
        "the global gradient is about θ_i − θ_g (equation 39), in rounds of FedOBP",
        "III-C and IV",
        GAP,
    ),
    Proposition(
        "gap-is-gradient-as-assumed",
        "the global gradient is about θ_i − θ_g (equation 39), if all clients start from θ_g, as"
        " section IV assumes",
        "IV",
        ASSUMED + GAP,
    ),
    Proposition(
        "score-ranks",
        "the score (equation 19) ranks parameters by what their replacement costs, in rounds of"
        " FedOBP",
        "III-C",
        RANK,
    ),
    Proposition(
        "score-ranks-as-assumed",
        "the score (equation 19) ranks parameters by what their replacement costs, if all clients"
        " start from θ_g",
        "IV",
        ASSUMED + RANK,
    ),
)
"""Sections III-C and IV, as `studies/propositions.py` tries them."""
