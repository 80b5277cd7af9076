"""Changes under which Star-PFL's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pandas as pd

from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.star_pfl import accuracy, savings, traces
from tests.paper_tables.doctored import Case, Doctored, frame, giving


def spent(evidence: Doctored, result: Result, factor: float) -> Sequence[Claim]:
    """Table 3 with so many times the printed costs; with none, all methods cost the same."""
    values = frame(result)
    ours = factor * values["published"] if factor else 1.0
    return savings.claims(evidence, values.assign(ours=ours))


def skewed(evidence: Doctored, result: Result, way: float) -> Sequence[Claim]:
    """Table 2 with a skew that grows with α, or falls."""
    with patch.object(accuracy, "unevenness", lambda alpha: way * alpha):
        return accuracy.claims(evidence, frame(result))


def traced(sizes: np.ndarray, drifts: np.ndarray) -> traces.Traces:
    """Entries of these sizes that drift [clients, entries], and shake where they do not."""
    steps = np.arange(12)[:, None, None]
    moves = drifts * steps + (1 - drifts) * (-1.0) ** steps
    return traces.Traces(
        sizes + 0.01 * moves,
        np.array([0, 0, 1, 1]),
        tuple(f"w[{place}]" for place in range(drifts.shape[1])),
        "invented",
    )


def sized(evidence: Doctored, result: Result, sizes: Sequence[float]) -> Sequence[Claim]:
    drifts = np.tile(np.linspace(0, 0.6, len(sizes)), (4, 1))
    return (traces.size_claim(traced(np.array(sizes), drifts), "paper"),)


def labelled(evidence: Doctored, result: Result, drifts: Sequence[float]) -> Sequence[Claim]:
    of_client = np.tile(np.array(drifts)[:, None], (1, 6))
    return (traces.label_claim(traced(np.arange(6.0), of_client), "paper"),)


def checked(evidence: Doctored, result: Result, gain: float) -> Sequence[Claim]:
    """Runs of three seeds, all better with the check by a given number of points."""
    places = [(how, 12, seed) for how in ("with", "without") for seed in range(3)]
    numbers = pd.DataFrame(places, columns=["how", "round", "seed"])
    accuracy_ = 80.0 + numbers["seed"] + gain * numbers["how"].eq("with")
    quantity = "accuracy, " + numbers["how"] + " the check"
    return (accuracy.check(numbers.assign(quantity=quantity, value=accuracy_), "paper"),)


REDUCTIONS = ("communication-reduction", "computation-reduction")
MIXED = (3.0, 1.0, 4.0, 2.0, 5.0, 0.5, 2.5)
ALIKE, APART = (0.1, 0.1, 0.6, 0.6), (0.1, 0.6, 0.1, 0.6)
CASES = (
    Case("table2", ("check-keeps-accuracy",), checked, giving(1.0), giving(-1.0)),
    Case("table2", ("larger-alpha-unbalanced",), skewed, giving(1.0), giving(-1.0)),
    Case("table3", ("comm-is-per-client",), spent, giving(20.0), giving(1.0)),
    Case("table3", REDUCTIONS, spent, giving(1.0), giving(0.0)),
    Case("fig1", ("size-no-guide-to-stability",), sized, giving(MIXED), giving(sorted(MIXED))),
    Case("fig2", ("same-label-same-stability",), labelled, giving(ALIKE), giving(APART)),
)
