"""The sentences of sections 4.2 to 4.5 on accuracies and masks."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd

from repfl.paper_tables.core.claims import at_least, best, cell, every, mean, sentence
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

    def wins(other: str, least: int, name: str, text: str) -> Claim:
        leads = (cell(OURS, c) > cell(other, c) for c in EVERYWHERE)
        return sentence(frame, name, text, at_least(least, leads), scale=scale)

    fashion = [KEYS["fmnist", a] for a in ALPHAS["fmnist"]]
    lead = {key: mean(cell(m, key) for m in OTHERS) - cell("Separate", key) for key in EVERYWHERE}
    return (
        wins("FedBN", 5, "above-fedbn", "FedPURIN outperforms FedBN in five of nine settings"),
        wins("FedCAC", 8, "above-fedcac", "FedPURIN surpasses FedCAC in eight of nine settings"),
        sentence(
            frame,
            "all-above-separate",
            "All methods outperform Separate in every setting",
            every(cell(m, c) > cell("Separate", c) for c in EVERYWHERE for m in OTHERS),
            scale=scale,
        ),
        sentence(
            frame,
            "lead-widens",
            "The lead over Separate widens with α",
            every(
                lead[KEYS[short, second]] > lead[KEYS[short, first]]
                for short, alphas in ALPHAS.items()
                for first, second in pairwise(alphas)
            ),
            scale=scale,
        ),
        sentence(
            frame,
            "best-on-cifar10",
            "FedPURIN is best on CIFAR-10 at α = 0.5 and 1.0",
            best(OURS, METHODS[:-1], CIFAR10[1:]),
            scale=scale,
        ),
        sentence(
            frame,
            "close-on-fashion",
            "On Fashion-MNIST all methods but Separate lie within one point",
            every(
                cell(a, c) + 1.0 >= cell(b, c)
                for c in fashion
                for a in OTHERS
                for b in OTHERS
                if a != b
            ),
            scale=scale,
            own=True,
        ),
    )


def table2(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.3 on gradients."""
    gain = mean(cell("exact g, H on", c) - cell("exact g, H off", c) for c in EVERYWHERE)
    return (
        sentence(
            frame,
            "approximation-degrades",
            "The approximated gradient degrades accuracy",
            at_least(5, (cell("exact g, H off", c) > cell("Δθ, H off", c) for c in EVERYWHERE)),
            scale=scale,
        ),
        sentence(
            frame,
            "hessian-no-gain",
            "The Hessian term brings no substantial or consistent gain (less than half a point on"
            " average)",
            every([gain * -1 + 0.5 > 0.0]),
            scale=scale,
            about=gain,
        ),
    )


def batch_norm(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.3 on batch norm."""
    lead = [cell(BN_ROWS[0], key) - cell(BN_ROWS[1], key) for key in CIFAR10]
    return (
        sentence(
            frame,
            "bn-local-better",
            "Keeping BN local is better at every α",
            every(each > 0.0 for each in lead),
            scale=scale,
            print_=False,
        ),
        sentence(
            frame,
            "bn-lead-widens",
            "The lead of local BN widens with α",
            every(second > first for first, second in pairwise(lead)),
            scale=scale,
            print_=False,
        ),
    )


def sparsity(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Section 4.3 on τ."""
    rising = TAU_ROWS[:4]
    return (
        sentence(
            frame,
            "rises-with-tau",
            "Accuracy improves systematically with τ up to 0.5",
            every(
                cell(second, key) > cell(first, key)
                for key in CIFAR10
                for first, second in pairwise(rising)
            ),
            scale=scale,
            print_=False,
        ),
    )
