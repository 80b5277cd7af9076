"""What artefacts are told of their cells."""

from __future__ import annotations

import pandas as pd

from repfl.paper_tables.core.evidence import why_missing


def test_a_number_that_is_missing_names_every_seed_once() -> None:
    cells = pd.DataFrame(
        [(seed, "missing", "not computed yet") for seed in (2, 1, 2, 1)] + [(3, "done", "")],
        columns=["seed", "status", "reason"],
    )
    assert why_missing(cells, "paper") == "not run yet (seed 1, 2)"
