"""Our curves beside the drawn ones, from invented runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.result import Figure
from repfl.paper_tables.fedobp import convergence
from tests.paper_tables.papers import PAPERS


def test_every_curve_is_compared_in_its_early_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drawn curve two points above ours is two points above ours, whatever the momentum."""
    runs = convergence.our_curves(PAPERS["fedobp"].evidence("fig3", "paper"), "0.5")
    assert set(runs["momentum"]) == {"0", "0.7", "0.9"}
    mean = runs.groupby(["dataset", "method", "round"])["mean"].mean()

    def above(figure: str, dataset: str, method: str) -> pd.Series:
        assert figure == "fig3"
        return mean[dataset, method] + 2.0

    monkeypatch.setattr(convergence, "drawn", above)
    frame = convergence.compared(runs, "0.5")
    assert len(frame) == runs.drop_duplicates(convergence.KEYS).shape[0]
    alone = frame.groupby(["dataset", "method"])["difference"].transform("size") == 1
    np.testing.assert_allclose(frame[alone]["difference"], -2.0, atol=1e-9)
    (words,) = convergence.findings(frame)
    assert "momentum 0.9" in words
    assert len(convergence.gaps_in_words(frame)) == frame["dataset"].nunique()


def test_smaller_scales_are_not_compared() -> None:
    made = PAPERS["fedobp"].make("fig2", "smoke")
    assert isinstance(made, Figure)
    assert made.findings == ()
    assert "kind" not in made.data
