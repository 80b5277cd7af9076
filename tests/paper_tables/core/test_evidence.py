"""What artefacts are told of their cells."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from repfl.paper_tables.core.evidence import TIERS, tier_of, why_missing

RANK = {"": len(TIERS), **{tier: rank for rank, tier in enumerate(TIERS)}}


def test_a_number_that_is_missing_names_every_seed_once() -> None:
    cells = pd.DataFrame(
        [(seed, "missing", "not computed yet") for seed in (2, 1, 2, 1)] + [(3, "done", "")],
        columns=["seed", "status", "reason"],
    )
    assert why_missing(cells, "paper") == "not run yet (seed 1, 2)"


@pytest.mark.parametrize("pair", list(product(("", "measured", "confirmed"), repeat=2)))
@pytest.mark.parametrize("stale", [(False, False), (False, True), (True, False)])
def test_several_runs_are_as_well_founded_as_the_weakest_of_them(
    pair: tuple[str, str], stale: tuple[bool, bool]
) -> None:
    texts = [
        ", ".join(filter(None, (tier, "stale" * old)))
        for tier, old in zip(pair, stale, strict=True)
    ]
    rows = [*(("done", text) for text in texts), ("missing", "measured")]
    shown = tier_of(pd.DataFrame(rows, columns=["status", "tier"])).split(", ")
    assert ("stale" in shown) == any(stale)
    assert [word for word in shown if word not in ("", "stale")] == [
        tier for tier in [min(pair, key=RANK.__getitem__)] if tier
    ]
