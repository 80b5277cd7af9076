"""FedOBP's equations 39 and 19, tried on a small federation of digits.

python paper_tables/fedobp/studies/propositions.py    # writes propositions.csv of FedOBP
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from repfl.paper_tables.studies import write
from repfl.paper_tables.studies.digits_toy import QUANTILE, RATE, ROUNDS, Toy, line, tried

SMALL_RATE = 0.02
"""Errors of FedOBP's section IV shrink with the step."""
ENTRIES = 150
"""Entries of a client whose true loss change is computed."""


def statements(toy: Toy) -> Iterator[dict[str, Any]]:
    """Equations 39 (the global gradient is about the difference to the server) and 19 (its square
    ranks what an entry's replacement costs), by FedOBP's rule and as section IV assumes.
    """
    for rate, small in ((RATE, ""), (SMALL_RATE, f"steps of {SMALL_RATE}: ")):
        for quantile, how in ((QUANTILE, ""), (1.0, "clients start from the server's model: ")):
            yield from approximated(toy, quantile, rate, small + how)


def approximated(toy: Toy, quantile: float, rate: float, how: str) -> Iterator[dict[str, Any]]:
    """Both equations in rounds 1, 3, 10 and 30."""
    for round_, models, server in toy.rounds(quantile, rate):
        if round_ not in ROUNDS:
            continue
        cosines, ranks = [], []
        for model in models:
            gap, slope = model - server, toy.gradient(model, toy.everything)
            cosines.append(float(gap @ slope / gap.norm() / slope.norm()))
            base = toy.loss(model, toy.everything)
            entries = toy.draw.choice(len(model), ENTRIES, replace=False)
            true = []
            for entry in entries:
                changed = model.clone()
                changed[entry] = server[entry]
                true.append(abs(float(toy.loss(changed, toy.everything) - base)))
            ranks.append(float(spearmanr((gap**2)[entries].numpy(), true).statistic))
        for equation, quantity, values in (
            ("39", "cosine of gap and global gradient", cosines),
            ("19", "rank correlation of score and true loss change", ranks),
        ):
            yield line(equation, how + quantity, round_, float(np.mean(values)))


if __name__ == "__main__":
    write(__file__, tried(statements))
