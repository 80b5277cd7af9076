"""What the page says of the authors' logs follows from the committed values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.fedobp import logs


def test_the_logs_speak_against_momentum_as_the_whole_story() -> None:
    gaps = logs.differences()
    assert gaps.shape == (8, 12)
    assert int((gaps < 0).to_numpy().sum()) == 87
    assert bool((gaps.mean() < 0).all())


def test_most_logs_lie_as_far_from_the_printed_mean_as_one_of_four_values_can() -> None:
    cells = logs.informative()
    found = {d: int(logs.lies_at(cells, d).sum()) for d in (1.25, 1.5, np.sqrt(3), 2.0, 2.25)}
    assert len(cells) == 118
    assert list(found.values()) == [2, 4, 74, 0, 0]


def test_one_value_beside_three_equal_ones_is_recognised_and_four_different_ones_are_not() -> None:
    for values, expected in (
        ([81.08, 80.80, 80.80, 80.80], True),
        ([81.08, 80.90, 80.70, 80.80], False),
    ):
        cell = pd.DataFrame(
            {
                "mean": [round(np.mean(values), 2)],
                "std": [round(np.std(values), 2)],
                "best": [values[0]],
            }
        )
        assert bool(logs.lies_at(cell).iloc[0]) is expected


def test_two_workers_change_flute_and_hardly_anybody_else() -> None:
    found = logs.workers()
    gap = (found["serial"] - found["parallel"]).round(2)
    assert gap["FLUTE"] == pytest.approx(6.69)
    assert gap["LG-FedAvg"] == pytest.approx(0.66)
    assert gap.drop(["FLUTE", "LG-FedAvg"]).abs().max() <= 0.04


def test_table_v_is_the_logs_in_28_of_32_cells() -> None:
    cells = logs.beside_print("V")
    differ = cells[cells["mean"] != cells["best"]]
    assert len(cells) == 32
    assert sorted(differ["dataset"]) == ["FMNIST", "MEDMNISTA", "MEDMNISTC", "MNIST"]
    assert set(differ["method"]) == {"FedOBP GlobalNorm with CLS"}


def test_table_v_is_not_table_iii_by_more_than_runs_differ() -> None:
    """On CIFAR-100, EMNIST and SVHN the two lie nine printed deviations and more apart; on CIFAR-10
    only two.
    """
    printed = (
        logs.beside_print("III")
        .query("method == 'FedOBP' and setting == 'Dir(0.1)'")
        .set_index("dataset")
    )
    logged = logs.beside_print("V").query("method == 'FedOBP NoNorm'").set_index("dataset")["mean"]
    apart = ((logged - printed["mean"]).abs() / printed["std"]).dropna()
    assert apart["CIFAR10"] == pytest.approx(2.0)
    assert min(apart["CIFAR100"], apart["EMNIST"], apart["SVHN"]) > 9


def test_serial_runs_with_one_seed_come_out_alike() -> None:
    runs = logs.logged().query("mode == 'serial' and setting == 'Dir(0.1)'")
    for dataset, method in (("MNIST", "APFL"), ("CIFAR10", "pFedFDA"), ("CIFAR100", "pFedFDA")):
        twice = runs[(runs["dataset"] == dataset) & (runs["method"] == method)]
        assert twice["started"].nunique() == 2
        assert len(twice[logs.EVALUATIONS].drop_duplicates()) == 1
