"""Our curves beside the drawn ones, from invented runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repfl.bench.report.show_text import NO_RECORDS, describe
from repfl.paper_tables.core.result import CURVE_GAP_FIELDS, Figure
from repfl.paper_tables.fedobp import convergence, curves
from repfl.tables import table
from tests.paper_tables.papers import PAPERS


def line(rounds: int, label: str, momentum: str, seed: int = 42) -> pd.DataFrame:
    """One run's curve on MNIST at Dir(0.5), as `our_curves` returns it."""
    at = np.arange(1, rounds + 1)
    about = {"column": "mnist-dir0.5", "label": label, "momentum": momentum, "seed": seed}
    return pd.DataFrame({"round": at, "mean": 90.0 - 10.0 / at}).assign(**about)


def test_every_curve_is_compared_in_the_windows_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A drawn curve two points above ours is two points above ours, in every window."""
    lines = [line(400, "FedRep", "0"), line(60, "FedRep", "0.9"), line(20, "FedPer", "0.7")]
    full = line(400, "FedAvg", "0").set_index("round")["mean"]
    monkeypatch.setattr(curves, "drawn", lambda *_: full + 2.0)
    frame = curves.gaps(pd.concat(lines))
    assert list(frame.columns) == list(CURVE_GAP_FIELDS)
    windows = [("momentum 0", 15), ("momentum 0", 51), ("momentum 0", 101), ("momentum 0.9", 15)]
    assert list(zip(frame["setting"], frame["first"], strict=True)) == windows
    assert set(frame["row"]) == {"FedRep"}  # six of 36 rounds are no window
    assert set(frame["beside"]) == {"fedobp/fig3"}
    np.testing.assert_allclose(frame["difference"], -2.0, atol=1e-9)
    assert set(frame["verdict"]) == {"undecided"}  # one run each
    (words,) = convergence.findings(frame)
    assert "momentum 0.9: -2.00 (1 curve)" in words


def test_two_equal_runs_decide_a_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line(60, "FedRep", "0", seed) for seed in (42, 43)]
    monkeypatch.setattr(curves, "drawn", lambda *_: lines[0].set_index("round")["mean"] + 2.0)
    assert set(curves.gaps(pd.concat(lines))["verdict"]) == {"differs"}


def test_runs_of_sixty_rounds_stand_beside_the_full_ones() -> None:
    runs = convergence.our_curves(PAPERS["fedobp"].evidence("fig3", "paper"), "0.5")
    assert set(runs["momentum"]) == {"0", "0.7", "0.9"}
    assert not runs["column"].str.endswith("-60").any()


def test_a_table_and_its_pages_have_the_curves_of_their_own_runs() -> None:
    result = table("fedobp/table4", "paper", NO_RECORDS)
    lines = pd.DataFrame(result.attrs["curves"])
    assert set(lines["setting"]) == {"momentum 0"}
    assert set(lines["row"]) <= set(result.index.get_level_values("row"))
    assert {"fedobp/fig2", "fedobp/fig3"} == set(lines["beside"])
    shown = "\n".join(describe("fedobp/table4.csv:2", NO_RECORDS, ""))
    assert "curve, rounds 15 to 50, momentum 0: " in shown


def test_smaller_scales_are_not_compared() -> None:
    made = PAPERS["fedobp"].make("fig2", "smoke")
    assert isinstance(made, Figure)
    assert made.findings == ()
    assert made.curve_gaps.empty
    assert "kind" not in made.data
