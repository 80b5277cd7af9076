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
    assert "momentum 0.9: −2.00 (1 curve)" in words


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


def counted() -> str:
    """What committed runs say of the momenta in early rounds, as the pages say it."""
    made = [table(f"fedobp/{name}", "paper", NO_RECORDS) for name in curves.FIGURES.values()]
    lines = pd.DataFrame([line for each in made for line in each.attrs["curves"]])
    shown = lines["column"].str.split("-").str[0].isin(["mnist", "fmnist", "cifar10"])
    early = lines[shown & (lines["last"] == curves.EARLY[1])]
    off = early.pivot(index=["column", "row"], columns="setting", values="difference")
    none, logged, high = (off[f"momentum {momentum}"] for momentum in ("0", "0.7", "0.9"))
    parts = [
        f"{each.min():+.2f} to {each.max():+.2f} ({each.count()})".replace("-", "\N{MINUS SIGN}")
        for each in (logged, none, high)
    ]
    counts = [
        f"{int((logged.abs() < other.abs()).sum())} of {(logged + other).count()}"
        for other in (none, high)
    ]
    return (
        "ours minus the drawn curves in points (number of curves; MNIST, Fashion-MNIST, CIFAR-10):"
        f" with momentum 0.7 {parts[0]}, without {parts[1]}, with 0.9 {parts[2]}. Where both have"
        f" run, 0.7 is nearer than none in {counts[0]} and than 0.9 in {counts[1]}"
    )


@pytest.mark.parametrize("page", ["fedobp/README.md", "PLAN.md"])
def test_a_page_says_what_the_runs_under_three_momenta_say(page: str) -> None:
    text = (curves.FOLDER.parent / page).read_text(encoding="utf-8")
    assert counted() in " ".join(text.split())


def test_smaller_scales_are_not_compared() -> None:
    made = PAPERS["fedobp"].make("fig2", "smoke")
    assert isinstance(made, Figure)
    assert made.findings == ()
    assert made.curve_gaps.empty
    assert "kind" not in made.data
