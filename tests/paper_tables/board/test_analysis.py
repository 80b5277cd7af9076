"""The board's arithmetic, on tables whose answers are known."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from repfl.paper_tables.board import analysis
from repfl.paper_tables.core.statistics import pairwise


def trials(*rows: tuple[str, int, int, str, float]) -> pd.DataFrame:
    """Trials of one column: method, study, trial, status, validation."""
    names = ["method", "study", "trial", "status", "validation"]
    return pd.DataFrame(rows, columns=names).assign(column="c", id=lambda t: t.index.astype(str))


def clients(**methods: list[float]) -> pd.DataFrame:
    """Accuracies of the clients of one block."""
    places = {"column": "c", "study": 1}
    rows = [
        places | {"method": name, "client": client, "accuracy": accuracy}
        for name, values in methods.items()
        for client, accuracy in enumerate(values)
    ]
    return pd.DataFrame(rows)


def scores(means: dict[str, float], studies: int, noise: float, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 5, studies)
    rows = [
        (name, study, mean + common[study] + rng.normal(0, noise))
        for name, mean in means.items()
        for study in range(studies)
    ]
    return pd.DataFrame(rows, columns=["method", "study", "value"]).assign(column="c")


def test_the_spread_is_of_the_trials_that_came_to_an_end_once_all_are_made() -> None:
    made = [("a", 1, 1, "diverged", np.nan), ("a", 1, 2, "done", 0.6), ("a", 1, 3, "done", 0.5)]
    assert analysis.spread_of_trials(trials(*made)).tolist() == pytest.approx([0.1])
    begun = trials(*made, ("a", 2, 1, "missing", np.nan), ("b", 1, 1, "done", 0.5))
    found = analysis.spread_of_trials(begun).droplevel("column").fillna(-1)
    assert found.to_dict() == {"a": -1, "b": 0}


def test_intervals_of_differences_cover_as_often_as_they_say() -> None:
    """What a study does to all methods alike widens none."""
    covered = []
    for seed in range(100):
        found = analysis.method_means(scores(dict.fromkeys("abcde", 50.0), 3, 2.0, seed), "c")
        error, df = found.pairs.error("a", "b")
        gap = abs(found.means["a"] - found.means["b"])
        covered.append(gap <= stats.t.ppf(0.975, df) * error)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.04)


EQUAL = dict.fromkeys("abcdefgh", 50.0)


@pytest.mark.parametrize(("loud", "most"), [(1.0, 0.09), (5.0, 0.12)])
def test_of_equal_methods_any_two_seldom_differ(loud: float, most: float) -> None:
    """Whichever two one looks at, on about one board of twenty; if two methods are five times as
    noisy, on at most one of eight.
    """
    differ, found, boards = 0, 0, 60
    for seed in range(boards):
        board = scores(EQUAL, 3, 1.0, seed)
        noise = np.random.default_rng(seed + 1000).normal(0, (loud**2 - 1) ** 0.5, len(board))
        board["value"] += noise * board["method"].isin(["g", "h"])
        here = analysis.method_means(board, "c")
        pairs = [(a, b) for a in EQUAL for b in EQUAL if a < b]
        gaps = (
            abs(here.means[a] - here.means[b]) > here.pairs.critical_difference(a, b)
            for a, b in pairs
        )
        differ += any(gaps)
        found += here.pairs.critical_difference("a", "b") < 12
    assert differ <= most * boards
    assert found > 0.8 * boards  # a quiet pair is found in spite of loud ones


def test_loud_rows_have_the_p_values_of_games_and_howell() -> None:
    """SciPy's, on scores from which the study is taken out, which costs a row in eight."""
    wide = scores(dict.fromkeys("abcdefgh", 50.0), 4, 1.0)
    wide = wide.pivot(index="method", columns="study", values="value")
    wide.loc[["a", "b"]] += np.array([[-9.0, 0.0, 9.0, 5.0], [9.0, -9.0, 0.0, 4.0]])
    rest = wide - wide.mean(axis="index")
    want = stats.tukey_hsd(*rest.to_numpy(), equal_var=False).pvalue
    gap = float(rest.loc["a"].mean() - rest.loc["b"].mean())
    found = pairwise.pairs([wide])
    assert found.p("a", "b", gap * sqrt(8 / 7)) == pytest.approx(want[0, 1], rel=1e-6)
    quiet = found.variances.drop(index=["a", "b"])
    assert quiet["variance"].nunique() == 1
    assert (quiet["df"] < 12).all()  # of 24: two loud rows make most of the mean


def test_harm_counts_the_clients_below_their_own_local_model() -> None:
    found = analysis.harm_by_cell(
        clients(local=[0.5, 0.6, 0.7, 0.8], m=[0.6, 0.5, 0.7, 0.5]), "local"
    )
    assert list(found["method"]) == ["m"]
    assert found.loc[0, ["harm", "loss"]].to_list() == pytest.approx([50, 0.2])


def test_losses_are_those_of_harmed_clients_however_they_spread_over_studies() -> None:
    places = {"method": ["m"] * 2 + ["kind"] * 2, "column": "c", "study": [1, 2] * 2}
    found = pd.DataFrame({**places, "harm": [10.0, 30.0, 0, 0], "loss": [4.0, 2.0, 0, 0]})
    assert analysis.mean_loss(found, "c").to_dict() == {"m": 2.5, "kind": 0}


def test_gains_have_intervals_from_the_noise_within_methods() -> None:
    def board(**values: list[float]) -> pd.DataFrame:
        rows = [(m, "c", s, v) for m, each in values.items() for s, v in enumerate(each)]
        return pd.DataFrame(rows, columns=["method", "column", "study", "value"])

    found = analysis.gains(
        board(a=[2.0, 4, 6], b=[1.0, 1, 1]), board(a=[0.0, 1, 2], b=[1.0, 2, 0], c=[5.0]), "c"
    )
    assert found.means.to_dict() == {"a": 3, "b": 0}
    assert found.half_widths["a"] == pytest.approx(stats.t.ppf(0.975, 4) * 1 / np.sqrt(3), rel=0.6)


def test_equal_clients_count_half_for_either_method() -> None:
    found = analysis.win_probability(clients(a=[0.5, 0.6], b=[0.5, 0.4]), ["a", "b"])
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


def test_equal_methods_are_told_apart_from_whoever_leads_on_one_board_of_twenty() -> None:
    """Holm's correction, which takes the leader for one named beforehand, finds a difference on
    twice as many.
    """
    found = []
    for board in range(50):
        blocks = pd.concat(
            scores(EQUAL, 3, 2.0, 3 * board + column).assign(column=column) for column in range(3)
        )
        leader = str(analysis.ranks(blocks)[0].idxmin())
        found.append(analysis.against(blocks, leader)["p"].min() < 0.05)
    assert np.mean(found) <= 0.08


def test_over_blocks_the_leader_and_its_equals_are_near_and_no_other() -> None:
    blocks = pd.concat(
        scores({"best": 70, "same": 69.9, "worst": 40}, 3, 0.3).assign(column=c) for c in "xy"
    )
    leader, found = analysis.overall(blocks)
    assert leader in ("best", "same")
    assert found["near"].to_dict() == {"best": True, "same": True, "worst": False}


def test_the_critical_difference_is_that_of_the_published_table() -> None:
    """Demsar (2006), table 5a: q = 2.569 for four methods."""
    blocks = pd.concat(scores(dict.fromkeys("abcd", 1.0), 14, 1.0).assign(column=c) for c in "x")
    _, critical = analysis.ranks(blocks)
    assert critical == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)


def test_the_front_has_whoever_is_best_at_a_cost() -> None:
    accuracy = pd.Series({"cheap": 60, "dear": 80, "beaten": 55, "middle": 70})
    cost = pd.Series({"cheap": 1, "dear": 9, "beaten": 3, "middle": 4})
    assert analysis.pareto_front(accuracy, cost) == ["cheap", "middle", "dear"]


def test_costs_that_hardly_differ_put_nobody_on_the_front() -> None:
    accuracy = pd.Series({"worse": 60, "better": 80, "best": 81})
    cost = pd.Series({"worse": 100, "better": 100.9, "best": 102})
    assert analysis.pareto_front(accuracy, cost) == ["better", "best"]


def test_the_round_in_which_a_curve_reaches_most_of_its_best() -> None:
    assert analysis.rounds_to(pd.Series({5: 0.3, 10: 0.55, 15: 0.6, 20: 0.5})) == 10
    assert np.isnan(analysis.rounds_to(pd.Series(dtype=float)))
