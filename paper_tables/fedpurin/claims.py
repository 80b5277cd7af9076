"""The sentences of sections 4.2 to 4.5 on accuracies and bytes, as conditions on tables, and of 3.2
on equation 5.
"""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path

from repfl.paper_tables.core.claims.conditions import Condition, at_least, best, cell, every, mean
from repfl.paper_tables.core.claims.sentences import Proposition, Sentence
from repfl.paper_tables.fedpurin.settings import (
    ALPHAS,
    BN_ROWS,
    CIFAR10,
    COLUMNS,
    DATASETS,
    KEYS,
    METHODS,
    OURS,
    TAU_ROWS,
)

EVERYWHERE = tuple(column.key for column in COLUMNS)
OTHERS = METHODS[1:]
FASHION = tuple(KEYS["fmnist", alpha] for alpha in ALPHAS["fmnist"])


def above(other: str) -> list[Condition]:
    """FedPURIN above another method, setting by setting."""
    return [cell(OURS, key) > cell(other, key) for key in EVERYWHERE]


LEAD = {key: mean(cell(m, key) for m in OTHERS) - cell("Separate", key) for key in EVERYWHERE}
TABLE1 = (
    Sentence(
        "above-fedbn",
        "FedPURIN outperforms FedBN in five of nine settings",
        at_least(5, above("FedBN")),
    ),
    Sentence(
        "above-fedcac",
        "FedPURIN surpasses FedCAC in eight of nine settings",
        at_least(8, above("FedCAC")),
    ),
    Sentence(
        "all-above-separate",
        "All methods outperform Separate in every setting",
        every(cell(m, c) > cell("Separate", c) for c in EVERYWHERE for m in OTHERS),
    ),
    Sentence(
        "lead-widens",
        "The lead over Separate widens with α",
        every(
            LEAD[KEYS[short, second]] > LEAD[KEYS[short, first]]
            for short, alphas in ALPHAS.items()
            for first, second in pairwise(alphas)
        ),
    ),
    Sentence(
        "best-on-cifar10",
        "FedPURIN is best on CIFAR-10 at α = 0.5 and 1.0",
        best(OURS, METHODS[:-1], CIFAR10[1:]),
    ),
    Sentence(
        "close-on-fashion",
        "On Fashion-MNIST all methods but Separate lie within one point",
        every(cell(a, c) + 1.0 >= cell(b, c) for c in FASHION for a, b in permutations(OTHERS, 2)),
        own=True,
    ),
)
"""Section 4.2."""

GAIN = mean(cell("exact g, H on", c) - cell("exact g, H off", c) for c in EVERYWHERE)
EXACT = mean(
    cell(f"exact g, {h}", c) - cell(f"Δθ, {h}", c) for h in ("H off", "H on") for c in EVERYWHERE
)
TABLE2 = (
    Sentence(
        "approximation-degrades",
        "The approximated gradient degrades accuracy",
        at_least(5, (cell("exact g, H off", c) > cell("Δθ, H off", c) for c in EVERYWHERE)),
    ),
    Sentence(
        "exact-more-effective",
        "The exact gradient is more effective than Δθ (4.3; mean over nine settings, with and"
        " without H)",
        every([EXACT > 0.0]),
        about=EXACT,
    ),
    Sentence(
        "hessian-no-gain",
        "The Hessian term brings no substantial or consistent gain (less than half a point on"
        " average)",
        every([GAIN * -1 + 0.5 > 0.0]),
        about=GAIN,
    ),
)
"""Section 4.3 on gradients."""

FOLDER = Path(__file__).parent
PROPOSITIONS = (
    Proposition(
        "substitute-slightly-below",
        "the square of the batch's mean gradient slightly underestimates F (3.2, equation 5)",
        "substitute over F",
    ),
    Proposition(
        "substitute-ranks",
        "the square of the batch's mean gradient ranks parameters as F does (3.2, equation 5)",
        "rank correlation with F",
    ),
)
"""Section 3.2, as `studies/propositions.py` tries it."""

BN_LEAD = [cell(BN_ROWS[0], key) - cell(BN_ROWS[1], key) for key in CIFAR10]
BATCH_NORM = (
    Sentence(
        "bn-local-better",
        "Keeping BN local is better at every α",
        every(each > 0.0 for each in BN_LEAD),
        print_=False,
    ),
    Sentence(
        "bn-lead-widens",
        "The lead of local BN widens with α",
        every(second > first for first, second in pairwise(BN_LEAD)),
        print_=False,
    ),
)
"""Section 4.3 on batch norm."""

SPARSITY = (
    Sentence(
        "rises-with-tau",
        "Accuracy improves systematically with τ up to 0.5",
        every(
            cell(second, key) > cell(first, key)
            for key in CIFAR10
            for first, second in pairwise(TAU_ROWS[:4])
        ),
        print_=False,
    ),
)
"""Section 4.3 on τ."""

TAU, MASK = 0.5, 1 / 32
"""The share of values that may be sent, and a bit per value of four bytes, as parts of a model."""
BYTES = (
    Sentence(
        "uplink-below-tau",
        "The uplink falls below the share τ of the model, since the smallest perturbations are"
        " omitted (4.5)",
        every(
            cell("FedAvg ↑", f"{short}/as the paper counts") * (TAU + MASK)
            > cell(f"{OURS} ↑, {phase}", f"{short}/as the paper counts")
            for short in DATASETS
            for phase in ("t ≤ β", "t > β")
        ),
        full_scale_only=True,
    ),
)
"""Section 4.5 on what is omitted."""
