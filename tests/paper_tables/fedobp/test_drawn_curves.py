"""What was read from the authors' vector figures agrees with what they published as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.fedobp import curves
from repfl.paper_tables.fedobp.settings import DATASETS, DRAWN, FOLDER, PRINTED

PUBLISHED = read_published(FOLDER / "published").frame


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / "published" / f"figure_{name}.csv.gz")


def test_every_method_is_drawn_in_every_panel_but_one_below_its_axis() -> None:
    points = read("curves")
    lines = points.drop_duplicates(["figure", "dataset", "line"]).groupby("figure").size()
    assert lines.to_dict() == {"fig2": 88, "fig3": 87, "fig5": 32}
    assert set(points["dataset"]) == set(PRINTED.values())
    assert set(points.query("figure == 'fig2'")["line"]) == set(DRAWN) - {"FedALA"}
    # a fitted parabola may pass 100 by a little
    assert points["accuracy"].between(0, 102).all()
    missing = curves.drawn("fig3", "SVHN", "FLUTE")
    assert missing.empty


def test_the_drawn_sweeps_are_the_logged_ones() -> None:
    """To the printed digits: 446 points, each beside a logged one of the same quantile."""
    logged = PUBLISHED[PUBLISHED["file"] == "author_logs_scores.csv"]
    logged = logged.assign(
        q=logged["setting"].str.extract(r"q=([0-9.]+)")[0].astype(float),
        score=logged["method"].str.removesuffix(" (first version)"),
    )
    both = read("sweeps").merge(logged, on=["dataset", "score", "q"])
    gaps = (
        (both["accuracy"] - both["value"])
        .abs()
        .groupby([both[k] for k in ("dataset", "score", "q")])
    )
    assert len(gaps) == len(read("sweeps")) == 446
    assert gaps.min().max() < 0.011


def test_the_drawn_shares_of_layers_end_where_the_authors_files_do() -> None:
    names = {"SHVN": "SVHN", "MedMNISTA": "MEDMNISTA", "MedMNISTC": "MEDMNISTC"}
    drawn = read("layers").replace({"dataset": names})
    ends = drawn[drawn["epoch"] >= 430].groupby(["dataset", "layer"])["share"].mean()
    filed = PUBLISHED[PUBLISHED["file"] == "author_files_layers.csv"]
    shares = filed[filed["metric"].str.contains("share")]
    for row in shares.to_dict("records"):
        layer = str(row["metric"]).removeprefix("personalized_share_in_")
        assert ends[row["dataset"], layer] == pytest.approx(row["value"], abs=0.011)
    assert len(shares) == 2 * len(DATASETS)


def test_the_smoothing_keeps_a_parabola_up_to_half_a_round_and_short_curves() -> None:
    """An even window has no middle, so what is drawn at a round lies half a round beside it."""
    rounds = np.arange(60.0)

    def parabola(at: np.ndarray) -> np.ndarray:
        return 3 + 0.5 * at - 0.01 * at**2

    inner = curves.smooth(parabola(rounds))[10:-10]
    shifts = [np.abs(inner - parabola(rounds[10:-10] + by)).max() for by in (-0.5, 0.5)]
    assert min(shifts) < 1e-9
    short = np.array([1.0, 5.0, 2.0])
    assert curves.smooth(short) is short


def test_epoch_zero_of_a_figure_is_the_first_round() -> None:
    curve = curves.drawn("fig2", "FMNIST", "Local-Only")
    points = read("curves").query(
        "figure == 'fig2' and dataset == 'FMNIST' and line == 'Local-Only'"
    )
    assert list(curve.index - 1) == list(points["epoch"])
    assert curve.iloc[-1] == points["accuracy"].iloc[-1]
