"""The sentences of sections 4.2 to 4.5 on accuracies and masks."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, permutations

import pandas as pd

from repfl.paper_tables.core.claims import Condition, at_least, best, cell, every, mean, sentence
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.fedpurin.settings import (
    ALPHAS,
    BN_ROWS,
    CIFAR10,
    COLUMNS,
    KEYS,
    METHODS,
    OURS,
    TAU_ROWS,
)

EVERYWHERE = tuple(column.key for column in COLUMNS)
OTHERS = METHODS[1:]


def table1(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.2."""
    say = partial(sentence, frame, scale=scale)
    fashion = [KEYS["fmnist", a] for a in ALPHAS["fmnist"]]
    lead = {key: mean(cell(m, key) for m in OTHERS) - cell("Separate", key) for key in EVERYWHERE}

    def above(other: str) -> list[Condition]:
        return [cell(OURS, key) > cell(other, key) for key in EVERYWHERE]

    return (
        say(
            "above-fedbn",
            "FedPURIN outperforms FedBN in five of nine settings",
            at_least(5, above("FedBN")),
        ),
        say(
            "above-fedcac",
            "FedPURIN surpasses FedCAC in eight of nine settings",
            at_least(8, above("FedCAC")),
        ),
        say(
            "all-above-separate",
            "All methods outperform Separate in every setting",
            every(cell(m, c) > cell("Separate", c) for c in EVERYWHERE for m in OTHERS),
        ),
        say(
            "lead-widens",
            "The lead over Separate widens with α",
            every(
                lead[KEYS[short, second]] > lead[KEYS[short, first]]
                for short, alphas in ALPHAS.items()
                for first, second in pairwise(alphas)
            ),
        ),
        say(
            "best-on-cifar10",
            "FedPURIN is best on CIFAR-10 at α = 0.5 and 1.0",
            best(OURS, METHODS[:-1], CIFAR10[1:]),
        ),
        say(
            "close-on-fashion",
            "On Fashion-MNIST all methods but Separate lie within one point",
            every(
                cell(a, c) + 1.0 >= cell(b, c) for c in fashion for a, b in permutations(OTHERS, 2)
            ),
            own=True,
        ),
    )


def table2(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.3 on gradients."""
    say = partial(sentence, frame, scale=scale)
    gain = mean(cell("exact g, H on", c) - cell("exact g, H off", c) for c in EVERYWHERE)
    return (
        say(
            "approximation-degrades",
            "The approximated gradient degrades accuracy",
            at_least(5, (cell("exact g, H off", c) > cell("Δθ, H off", c) for c in EVERYWHERE)),
        ),
        say(
            "hessian-no-gain",
            "The Hessian term brings no substantial or consistent gain (less than half a point on"
            " average)",
            every([gain * -1 + 0.5 > 0.0]),
            about=gain,
        ),
    )


def batch_norm(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.3 on batch norm."""
    say = partial(sentence, frame, scale=scale, print_=False)
    lead = [cell(BN_ROWS[0], key) - cell(BN_ROWS[1], key) for key in CIFAR10]
    better = every(each > 0.0 for each in lead)
    widens = every(second > first for first, second in pairwise(lead))
    return (
        say("bn-local-better", "Keeping BN local is better at every α", better),
        say("bn-lead-widens", "The lead of local BN widens with α", widens),
    )


def sparsity(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.3 on τ."""
    rises = every(
        cell(second, key) > cell(first, key)
        for key in CIFAR10
        for first, second in pairwise(TAU_ROWS[:4])
    )
    text = "Accuracy improves systematically with τ up to 0.5"
    return (sentence(frame, "rises-with-tau", text, rises, scale=scale, print_=False),)
