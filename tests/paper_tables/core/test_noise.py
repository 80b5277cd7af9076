"""The noise model: what it learns, how sure it is, and that intervals made with it cover what they
say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log, sqrt

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core import noise
from repfl.paper_tables.core.published import Printing
from repfl.paper_tables.core.statistics import Expected, half_width
from repfl.paper_tables.core.tables import Place

SETTINGS, METHODS = tuple(f"paper/s{i}" for i in range(8)), tuple(f"m{i}" for i in range(6))
WORLDS, DRAWS = range(16), 400


def world(
    seed: int, sizes: tuple[float, float, float] = (0.8, 0.6, 0.5), runs: int = 3
) -> tuple[pd.DataFrame, dict[tuple[str, str], float]]:
    """Groups of runs in a world whose log variances are sums of effects of these deviations, and
    the true variances.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    level = 2 * log(0.5) + 0.8 * rng.standard_normal()
    setting = dict(zip(SETTINGS, sizes[0] * rng.standard_normal(len(SETTINGS)), strict=True))
    method = dict(zip(METHODS, sizes[1] * rng.standard_normal(len(METHODS)), strict=True))
    true = {
        (s, m): float(np.exp(level + setting[s] + method[m] + sizes[2] * rng.standard_normal()))
        for s in SETTINGS
        for m in METHODS
    }
    rows = [
        ("desk", s, m, v * rng.chisquare(runs - 1) / (runs - 1), runs - 1, False)
        for (s, m), v in true.items()
    ]
    return pd.DataFrame(rows, columns=list(noise.GROUPS)), true


def test_a_quiet_setting_is_expected_to_be_quiet() -> None:
    quiet = [("desk", "quiet", m, 0.01, 4, False) for m in METHODS]
    loud = [("desk", "loud", m, 9.0, 4, False) for m in METHODS]
    model = noise.fit(pd.DataFrame(quiet + loud, columns=list(noise.GROUPS)))
    found = [model.expected("desk", setting, "new").variance for setting in ("quiet", "loud")]
    assert found[0] < 0.05
    assert found[1] > 1.0


def test_settings_of_the_same_clients_are_one_setting_and_their_cells_still_their_own() -> None:
    rows = [("desk", "long", m, 0.01, 4, False) for m in METHODS]
    rows += [("desk", "short", METHODS[0], 9.0, 4, False)]
    groups = pd.DataFrame(rows, columns=list(noise.GROUPS))
    apart, one = noise.fit(groups), noise.fit(groups, {"short": "long"})
    assert one.expected("desk", "short", "new").variance < 0.1
    assert apart.expected("desk", "short", "new").variance > 0.2
    # what the short runs show counts for the long ones of the same method
    assert (
        one.expected("desk", "long", METHODS[0]).variance
        > 2 * one.expected("desk", "long", METHODS[1]).variance
    )


def test_the_less_is_known_of_a_cell_the_fewer_degrees_of_freedom_it_has() -> None:
    model = noise.fit(world(1)[0])
    known, new_method, new_setting, nothing = (
        model.expected(*labels).df
        for labels in (
            ("desk", SETTINGS[0], METHODS[0]),
            ("desk", SETTINGS[0], "x"),
            ("desk", "x", "x"),
            ("x", "x", "x"),
        )
    )
    assert known > new_method > new_setting > nothing


def test_a_model_of_nothing_expects_about_a_point_and_is_unsure() -> None:
    found = noise.UNKNOWN.expected("paper", "any", "any")
    assert found.df < 1.5
    half = half_width(found.variance, found.df, 2.0)
    assert 5 < half < 50


def test_what_a_cell_has_itself_does_not_count_twice() -> None:
    groups = world(2)[0]
    model, place = noise.fit(groups), 17
    cell = tuple(groups.loc[place, list(noise.LABELS)])
    changed = groups.copy()
    changed.loc[place, "variance"] *= 50
    other = noise.Noise(noise.fit(changed).data, model.sizes)
    assert other.expected(*cell).variance == pytest.approx(model.expected(*cell).variance)
    neighbour = (cell[0], cell[1], next(m for m in METHODS if m != cell[2]))
    assert other.expected(*neighbour).variance > 1.05 * model.expected(*neighbour).variance


def test_rows_that_share_their_partitions_count_as_one() -> None:
    groups = world(3)[0]
    apart, together = (noise.fit(groups.assign(shared=shared)) for shared in (False, True))
    assert (
        together.expected("desk", SETTINGS[0], "x").df < apart.expected("desk", SETTINGS[0], "x").df
    )


def test_runs_become_groups_and_equal_accuracies_are_not_noiseless() -> None:
    runs = [
        ("desk", "s", "m", "v", seed, value, 400, False)
        for seed, value in ((0, 80.0), (1, 81.0), (2, 82.0))
    ]
    runs += [("desk", "s", "n", "v", seed, 70.0, 400, False) for seed in (0, 1)]
    runs += [("desk", "s", "single", "v", 0, 70.0, 400, False)]
    found = noise.groups_of(pd.DataFrame(runs, columns=list(noise.RUNS))).set_index("method")
    assert set(found.index) == {"m", "n"}
    assert (found.loc["m", "variance"], found.loc["m", "df"]) == (1.0, 2)
    assert found.loc["n", "variance"] == pytest.approx(0.25**2 / 12)


def test_printed_deviations_become_groups_but_for_those_of_zero() -> None:
    rows = [
        ("1", "A", "x", "FedAvg", 0.3),
        ("1", "A", "x", "Separate", 0.0),
        ("2", "A", "x", "FedAvg", 0.3),
        ("1", "B", "x", "FedAvg", 0.3),
    ]
    printed = pd.DataFrame(rows, columns=["table", "dataset", "setting", "method", "std"])
    found = noise.printed_groups(
        printed, "paper", "1", {"a": Place("A", "x")}, Printing(runs=4, own_partitions=False)
    )
    assert found[list(noise.LABELS)].to_numpy().tolist() == [
        ["paper, one partition", "paper/a", "fedavg"]
    ]
    assert found["variance"].iloc[0] == pytest.approx(0.09 * 4 / 3)


@pytest.mark.parametrize("runs", [1, 3, 4, 5])
def test_intervals_of_known_cells_cover_as_often_as_they_say(runs: int) -> None:
    """Over many worlds; the model is fitted to other runs of the same cells, as always."""
    covered = []
    for seed in WORLDS:
        model, true = _known(seed)
        rng = np.random.Generator(np.random.Philox(1000 + seed))
        for (setting, method), variance in true.items():
            covered.append(_covers(model.expected("desk", setting, method), variance, runs, rng))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_intervals_of_new_cells_of_new_settings_cover_as_often_as_they_say(runs: int) -> None:
    covered = []
    for seed in WORLDS:
        model, true = _known(seed, SETTINGS[2:])
        rng = np.random.Generator(np.random.Philox(1000 + seed))
        for (setting, method), variance in true.items():
            if setting in SETTINGS[:2]:
                covered.append(
                    _covers(model.expected("desk", setting, method), variance, runs, rng)
                )
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@cache
def _known(
    seed: int, settings: Sequence[str] = SETTINGS
) -> tuple[noise.Noise, dict[tuple[str, str], float]]:
    """The model of some settings of a world, and the true variances of all."""
    groups, true = world(seed)
    return noise.fit(groups[groups["setting"].isin(settings)]), true


def _covers(expected: Expected, variance: float, runs: int, rng: np.random.Generator) -> float:
    """The share of many intervals for a mean over runs that contain the truth."""
    means = sqrt(variance / runs) * rng.standard_normal(DRAWS)
    squares = variance * rng.chisquare(runs - 1, DRAWS) if runs > 1 else np.zeros(DRAWS)
    df = expected.df + runs - 1
    half = half_width((expected.df * expected.variance + squares) / df, df, 1 / runs)
    return float(np.mean(np.abs(means) <= half))
