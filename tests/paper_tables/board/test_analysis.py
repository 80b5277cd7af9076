"""The board's arithmetic, on tables whose answers are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.board import analysis


def trials(*rows: tuple[str, int, int, str, float]) -> pd.DataFrame:
    """Trials of one column: method, study, trial, status, validation."""
    names = ["method", "study", "trial", "status", "validation"]
    return pd.DataFrame(rows, columns=names).assign(column="c", id=lambda t: t.index.astype(str))


def clients(**methods: list[float]) -> pd.DataFrame:
    """Accuracies of the clients of one block."""
    return pd.DataFrame(
        [
            {"method": name, "column": "c", "study": 1, "client": client, "accuracy": accuracy}
            for name, values in methods.items()
            for client, accuracy in enumerate(values)
        ]
    )


def scores(means: dict[str, float], studies: int, noise: float, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 5, studies)
    return pd.DataFrame(
        [
            {
                "method": name,
                "column": "c",
                "study": study,
                "value": mean + common[study] + rng.normal(0, noise),
            }
            for name, mean in means.items()
            for study in range(studies)
        ]
    )


def test_a_trial_that_diverged_counts_as_zero_where_the_spread_is_told() -> None:
    half = trials(("a", 1, 1, "diverged", np.nan), ("a", 1, 2, "done", 0.6))
    assert analysis.spread_of_trials(half).tolist() == [0.6]


def test_what_a_study_does_to_all_methods_widens_no_interval() -> None:
    quiet = analysis.standing(scores({"a": 50, "b": 60, "c": 70}, 3, noise=1e-9), "c")
    assert quiet.half == pytest.approx(0, abs=1e-6)
    assert quiet.means["b"] - quiet.means["a"] == pytest.approx(10, abs=1e-6)


def test_intervals_of_differences_cover_as_often_as_they_say() -> None:
    """The difference of two means has root two times a mean's half width."""
    covered = []
    for seed in range(400):
        found = analysis.standing(scores(dict.fromkeys("abcde", 50.0), 3, 2.0, seed), "c")
        gap = found.means["a"] - found.means["b"]
        covered.append(abs(gap) <= np.sqrt(2) * found.half)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)


def test_harm_counts_the_clients_below_their_own_local_model() -> None:
    found = analysis.harm(clients(local=[0.5, 0.6, 0.7, 0.8], m=[0.6, 0.5, 0.7, 0.5]), "m", "local")
    assert (found.share, found.clients) == (0.5, 4)
    assert found.loss == pytest.approx(0.2)


def test_equal_clients_count_half_for_either_method() -> None:
    found = analysis.improvement(clients(a=[0.5, 0.6], b=[0.5, 0.4]), ["a", "b"])
    assert found.loc["a", "b"] == 0.75
    assert found.loc["b", "a"] == 0.25


def test_methods_that_are_far_apart_are_told_apart_and_equal_ones_are_not() -> None:
    blocks = pd.concat(
        scores({"best": 70, "same": 70, "worst": 40}, 3, 1.0, seed).assign(column=str(seed))
        for seed in range(4)
    )
    found = analysis.against(blocks, "best")
    assert found.loc["worst", "p"] < 0.01
    assert found.loc["same", "p"] > 0.05
    assert found.loc["worst", "blocks"] == 12


def test_the_critical_difference_is_that_of_the_published_table() -> None:
    """Demsar (2006), table 5a: q = 2.569 for four methods."""
    blocks = pd.concat(scores(dict.fromkeys("abcd", 1.0), 14, 1.0).assign(column=c) for c in "x")
    _, critical = analysis.ranks(blocks)
    assert critical == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)


def test_the_front_has_whoever_is_best_at_a_cost() -> None:
    accuracy = pd.Series({"cheap": 60, "dear": 80, "beaten": 55, "middle": 70})
    cost = pd.Series({"cheap": 1, "dear": 9, "beaten": 3, "middle": 4})
    assert analysis.front(accuracy, cost) == ["cheap", "middle", "dear"]


def test_the_round_in_which_a_curve_reaches_most_of_its_best() -> None:
    assert analysis.rounds_to(pd.Series({5: 0.3, 10: 0.55, 15: 0.6, 20: 0.5})) == 10
    assert np.isnan(analysis.rounds_to(pd.Series(dtype=float)))
