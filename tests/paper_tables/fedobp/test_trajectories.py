"""Our curves beside the drawn ones, from invented runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.fedobp import trajectories
from tests.paper_tables.papers import PAPERS


def test_every_curve_is_compared_in_its_early_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drawn curve two points above ours is two points above ours, whatever the momentum."""
    evidence = PAPERS["fedobp"].evidence("fig3", "paper")
    ours = trajectories.our_curves(evidence, "0.5")
    assert set(ours["momentum"]) == {"0", "0.7", "0.9"}
    mean = ours.groupby(["dataset", "method", "round"])["value"].mean()

    def above(figure: str, dataset: str, method: str) -> pd.Series:
        assert figure == "fig3"
        return mean[dataset, method] + 2.0

    monkeypatch.setattr(trajectories, "drawn", above)
    frame = trajectories.compared(evidence, "0.5")
    assert len(frame) == ours.drop_duplicates(trajectories.KEYS).shape[0]
    alone = frame.groupby(["dataset", "method"])["difference"].transform("size") == 1
    np.testing.assert_allclose(frame[alone]["difference"], -2.0, atol=1e-9)
    (words,) = trajectories.findings(frame)
    assert "momentum 0.9" in words
    assert len(trajectories.notes(frame)) == frame["dataset"].nunique()


def test_smaller_scales_are_not_compared() -> None:
    evidence = PAPERS["fedobp"].evidence("fig2", "smoke")
    frame = trajectories.compared(evidence, "0.1")
    assert frame.empty
    assert trajectories.findings(frame) == trajectories.notes(frame) == ()
