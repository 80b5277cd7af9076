"""FedPURIN's sentences that are no contrast of table cells: on equation 5, and on work."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from repfl.paper_tables.core.claims.sentences import Proposition

FOLDER = Path(__file__).parent
PROPOSITIONS = (
    Proposition(
        "substitute-slightly-below",
        "the square of the batch's mean gradient slightly underestimates F (equation 5)",
        "3.2",
        "substitute over F",
    ),
    Proposition(
        "substitute-ranks",
        "the square of the batch's mean gradient ranks parameters as F does (equation 5)",
        "3.2",
        "rank correlation with F",
    ),
)
"""Section 3.2, as `studies/propositions.py` tries it."""
NO_EXTRA_WORK = (
    "no-extra-computation",
    "The gradient of the last batch needs no computation of its own (at most 1 % more multiply-adds"
    " of a round than FedAvg)",
    "4.3",
)


def propositions() -> pd.DataFrame:
    """Return the numbers that the propositions are checked on."""
    return pd.read_csv(FOLDER / "propositions.csv")
