"""The fastest way of training is found by measurement, within the memory that there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.evaluate import AT_ONCE, WIDEST, samples_at_once
from repfl.algorithms.core.lowering import Lowering
from repfl.algorithms.core.tuning import Job, candidates, measure, tune
from repfl.bench.trust.tape import TapeLane
from tests.algorithms import toys


def test_the_fastest_way_wins_and_all_are_told() -> None:
    seconds = {1: 3.0, 4: 1.0, 8: 2.0}
    ways = [Lowering(1, lanes) for lanes in seconds]
    trials = tune(ways, lambda way: seconds[way.lanes])
    assert [trial.lowering.lanes for trial in trials] == [4, 8, 1]


def test_a_way_that_does_not_fit_rules_out_wider_ones_of_its_kind_only() -> None:
    tried: list[Lowering] = []

    def measured(way: Lowering) -> float:
        tried.append(way)
        if way.chunk >= 8 and way.conv == "grouped":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return 1.0 / way.together

    trials = tune(list(candidates(32, "default")), measured)
    assert [way.chunk for way in tried if way.conv == "grouped"] == [4, 8]
    assert [way.chunk for way in tried if way.conv == "matmul"] == [4, 8, 16, 32]
    assert trials[0].lowering.together == 32
    assert {trial.lowering.chunk for trial in trials if trial.seconds == float("inf")} == {
        8,
        16,
        32,
    }


def test_a_hopeless_way_rules_out_wider_ones_of_its_kind() -> None:
    tried: list[Lowering] = []

    def measured(way: Lowering) -> float:
        tried.append(way)
        return 9.0 if way.conv == "grouped" else 1.0 / way.together

    trials = tune(list(candidates(32, "default")), measured)
    assert [way.chunk for way in tried if way.conv == "grouped"] == [4]
    assert trials[0].lowering.together == 32


def test_a_lost_device_is_no_shortage_of_memory() -> None:
    def measured(way: Lowering) -> float:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        tune([Lowering(1, 4), Lowering(1, 8)], measured)


def test_scoring_stays_within_its_memory() -> None:
    data = replace(toys.data(), shape=(3, 32, 32))
    assert samples_at_once(data, 1) == 500
    assert 32 * samples_at_once(data, 32) * WIDEST * 32 * 32 <= AT_ONCE


def test_a_way_that_fails_is_out_and_says_why() -> None:
    def measured(way: Lowering) -> float:
        if way.lanes > 1:
            raise RuntimeError("capture is not supported\nby this driver")
        return 1.0

    trials = tune([Lowering(1, 4), Lowering(1, 1)], measured)
    assert trials[0].lowering.lanes == 1
    assert trials[1].note == "capture is not supported"


def test_candidates_never_exceed_the_cohort() -> None:
    for cohort in (1, 3, 10, 100):
        ways = list(candidates(cohort, "bf16"))
        assert len(set(ways)) == len(ways)
        assert max(way.together for way in ways) == min(cohort, 32)
        assert {way.precision for way in ways} == {"bf16"}


def test_a_trial_trains_with_the_engine_itself() -> None:
    recipe = toys.recipe(clients=3, batch=4)
    net = models.build("tiny-bn", channels=1, size=8, classes=4)
    job = Job(net, recipe, (1, 8, 8), 4, 3, "cpu", torch.float32, "default")
    for way in (Lowering(), Lowering(3, conv="grouped"), Lowering(1, 2, lane=TapeLane)):
        assert 0 < measure(job, way) < 1
