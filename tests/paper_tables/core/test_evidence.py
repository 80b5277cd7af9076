"""What artefacts are told of their cells."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from repfl.paper_tables.core.evidence import tier_of, why_missing


def test_a_number_that_is_missing_names_every_seed_once() -> None:
    cells = pd.DataFrame(
        [(seed, "missing", "not computed yet") for seed in (2, 1, 2, 1)] + [(3, "done", "")],
        columns=["seed", "status", "reason"],
    )
    assert why_missing(cells, "paper") == "not run yet (seed 1, 2)"


@pytest.mark.parametrize(
    "marks", list(product(("", "committed", "stale", "committed, stale"), repeat=2))
)
def test_several_runs_have_the_marks_of_each_of_them(marks: tuple[str, str]) -> None:
    rows = [*(("done", text) for text in marks), ("missing", "measured, stale")]
    shown = tier_of(pd.DataFrame(rows, columns=["status", "tier"]))
    expected = [mark for mark in ("committed", "stale") if any(mark in text for text in marks)]
    assert shown == ", ".join(expected)
