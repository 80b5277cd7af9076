"""The board's arithmetic, on tables whose answers are known."""

from __future__ import annotations

from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from repfl.paper_tables.board import analysis
from repfl.paper_tables.core.statistics import pairwise


def trials(*rows: tuple[str, int, int, str, float]) -> pd.DataFrame:
    """Trials of one column: row, seed, trial, status, validation."""
    names = ["row", "seed", "trial", "status", "validation"]
    return pd.DataFrame(rows, columns=names).assign(column="c", id=lambda t: t.index.astype(str))


def clients(**methods: list[float]) -> pd.DataFrame:
    """Accuracies of the clients of one block."""
    places = {"column": "c", "seed": 1}
    rows = [
        places | {"row": name, "client": client, "accuracy": accuracy}
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
    return pd.DataFrame(rows, columns=["row", "seed", "value"]).assign(column="c")


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
        board = scores(dict.fromkeys("abcde", 50.0), 3, 2.0, seed)
        wide = board.pivot(index="row", columns="seed", values="value")
        error, df = pairwise.pairs([wide]).error("a", "b")
        gap = abs(wide.loc["a"].mean() - wide.loc["b"].mean())
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
        board["value"] += noise * board["row"].isin(["g", "h"])
        half = analysis.differences(board, "b")["half"]
        wide = board.pivot(index="row", columns="seed", values="value")
        pairs, means = pairwise.pairs([wide]), wide.mean(axis="columns")
        # two quiet rows need the least, so most pairs need no quantile
        least = pairs.critical_difference(*pairs.variances["variance"].nsmallest(2).index)
        far = [(a, b) for a, b in combinations(EQUAL, 2) if abs(means[a] - means[b]) > least]
        differ += any(abs(means[a] - means[b]) > pairs.critical_difference(a, b) for a, b in far)
        assert half["a"] == pairs.critical_difference("a", "b")
        found += half["a"] < 12
    assert differ <= most * boards
    assert found > 0.8 * boards  # a quiet pair is found in spite of loud ones


def test_loud_rows_have_the_p_values_of_games_and_howell() -> None:
    """SciPy's, on scores from which the study is taken out, which costs a row in eight."""
    pytest.importorskip("scipy", "1.16", reason="SciPy before 1.16 has equal variances alone")
    wide = scores(dict.fromkeys("abcdefgh", 50.0), 4, 1.0)
    wide = wide.pivot(index="row", columns="seed", values="value")
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
    found = analysis.harm(clients(Local=[0.5, 0.6, 0.7, 0.8], m=[0.6, 0.5, 0.7, 0.5]))
    assert list(found["row"]) == ["m"]
    assert found.loc[0, ["harm", "loss"]].to_list() == pytest.approx([50, 0.1])


def test_losses_are_those_of_harmed_clients_however_they_spread_over_studies() -> None:
    """In `m`, 10 and 30 % of the clients lose 4 and 2 points."""
    rows = {"row": ["m"] * 2 + ["kind"] * 2 + ["Local"], "seed": [1, 2, 1, 2, 1]}
    found = pd.DataFrame({**rows, "harm": [10.0, 30, 0, 0, np.nan], "loss": [0.4, 0.6, 0, 0, None]})
    assert analysis.mean_loss(found).fillna(-1).to_dict() == {"m": 2.5, "kind": 0, "Local": -1}


def test_gains_have_intervals_from_the_noise_within_methods() -> None:
    def board(**values: list[float]) -> pd.DataFrame:
        rows = [(m, "c", s, v) for m, each in values.items() for s, v in enumerate(each)]
        return pd.DataFrame(rows, columns=["row", "column", "seed", "value"])

    found = analysis.gains(
        board(a=[2.0, 4, 6], b=[1.0, 1, 1]), board(a=[0.0, 1, 2], b=[1.0, 2, 0], c=[5.0]), "c"
    )
    assert found["mean"].to_dict() == {"a": 3, "b": 0}
    expected = stats.t.ppf(0.975, 4) * 1 / np.sqrt(3)
    assert found.loc["a", "half"] == pytest.approx(expected, rel=0.6)


def test_equal_clients_count_half_for_either_method() -> None:
    board = clients(a=[0.5, 0.6], b=[0.5, 0.4])
    assert analysis.better_off(board, "b").to_dict() == {"a": 75}
    assert analysis.better_off(board, "a").to_dict() == {"b": 25}


def test_differences_are_to_one_row_and_as_wide_for_either_side() -> None:
    board = scores({"best": 70, "same": 70, "worst": 40}, 3, 1.0)
    found = analysis.differences(board, "best")
    assert set(found.index) == {"same", "worst"}
    assert found.loc["worst", "mean"] == pytest.approx(-30, abs=3)
    assert found.loc["worst", "half"] < 10
    back = analysis.differences(board, "worst").loc["best"]
    assert back.to_dict() == {
        "mean": -found.loc["worst", "mean"],
        "half": found.loc["worst", "half"],
    }
    assert analysis.near_first(board).to_dict() == {"best": True, "same": True, "worst": False}
    assert analysis.differences(board, "gone")["mean"].isna().all()


def test_methods_that_are_far_apart_are_told_apart_and_equal_ones_are_not() -> None:
    blocks = pd.concat(
        scores({"best": 70, "same": 70, "worst": 40}, 3, 1.0, seed).assign(column=str(seed))
        for seed in range(4)
    )
    found = pairwise.against_leader(analysis.wide_scores(blocks), "best")
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
        _, ranked = analysis.overall(blocks)
        found.append(ranked["p"].min() < 0.05)
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
    critical = analysis.critical_rank_difference(blocks)
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
    values = {5: 0.3, 10: 0.55, 15: 0.6, 20: 0.5}
    curves = pd.DataFrame({"id": "x", "round": values.keys(), "value": values.values()})
    never = pd.DataFrame({"id": ["y", "z"], "round": [5, 5], "value": [0.0, np.nan]})
    assert analysis.rounds_to(pd.concat([curves, never])).to_dict() == {"x": 10}
