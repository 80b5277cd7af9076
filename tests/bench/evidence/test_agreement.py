"""Many hands: independent runs of a cell may confirm each other, by the noise model of verdicts."""

from __future__ import annotations

from dataclasses import replace
from math import log
from types import SimpleNamespace

import pytest

from repfl.algorithms.core import ENGINE
from repfl.bench.evidence.committed import agreement, committed_runs, noise
from repfl.bench.evidence.committed.agreement import CONFIRMED, MEASURED
from repfl.bench.evidence.committed.committed_run import Line
from repfl.bench.evidence.committed.committed_runs import Measured
from repfl.bench.store.store import Record
from repfl.paper_tables.core.statistics import noise as model
from repfl.paper_tables.core.statistics.intervals import Prior
from repfl.paper_tables.core.statistics.verdict import Runs, compare


def line(
    value: float | None,
    seed: int = 0,
    platform: str = "here",
    contributor: str = "founders",
    finished: str = "2026",
) -> Line:
    """An invented line."""
    recipe = {"dataset": "digits", "model": "tiny", "partition": {}}
    cell = {"method": "fedavg", "version": 1, "hp": {}, "recipe": recipe, "seed": seed}
    made = {
        "platform": {"fingerprint": platform},
        "contributor": contributor,
        "finished": finished,
        "versions": {"engine": ENGINE, "method": 1, "dataset": 1},
        "digests": {"state": f"{value} {platform}"},
    }
    return Line(Record(f"cell {seed}", cell, "done", "", {"value": value}, made), "x")


def known(*lines: Line) -> Measured:
    found = Measured()
    for each in lines:
        found.add(each)
    return found


SEEDS = [line(value, seed) for seed, value in enumerate((0.50, 0.52, 0.48, 0.51), 1)]
EXPECTED = Prior(2 * log(1.5) + 0.034, 0.0689)
"""A deviation of 1.5 that is worth 30 degrees of freedom."""


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise model by which two runs may lie 4.33 points apart."""
    told = SimpleNamespace(expected=lambda *labels: EXPECTED)
    monkeypatch.setattr(noise, "fitted", lambda: told)


@pytest.mark.usefixtures("quiet")
def test_two_runs_may_lie_as_far_apart_as_the_interval_of_the_noise_model_reaches() -> None:
    two = Runs(50.0, count=1)
    found = compare(two, two, EXPECTED)
    assert 100 * agreement.tolerance(SEEDS[0], known(*SEEDS)) == pytest.approx(found.high)
    assert found.high == pytest.approx(4.33, abs=0.01)


def test_what_is_expected_of_a_line_is_what_is_expected_of_its_table_s_cell() -> None:
    held = committed_runs.read("star-pfl", "smoke")
    some = next(each for each in held.lines if each.value is not None)
    where = (f"star-pfl/{some.column}", some.method)
    pool = model.pool("smoke", one_partition=True)
    assert noise.of_line(some, held) == noise.fitted().expected(pool, *where)
    assert noise.of_line(some, held) != noise.fitted().expected("another pool", *where)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("other", "tier"),
    [
        (line(0.505, 1, platform="there"), CONFIRMED),
        (line(0.50, 1, contributor="visitor"), MEASURED),
        (line(0.53, 1, platform="there"), MEASURED),
        (line(0.56, 1, platform="there"), MEASURED),
        (line(None, 1, platform="there"), MEASURED),
    ],
    ids=["close", "close here", "beyond a point", "beyond the noise", "without a value"],
)
def test_a_second_line_confirms_within_a_point_and_the_noise(other: Line, tier: str) -> None:
    made = {**other.record.provenance, "finished": "2027"}
    later = replace(other, record=replace(other.record, provenance=made))
    found = agreement.tiers(known(*SEEDS, later))
    assert (found["cell 1"], found["cell 2"]) == (tier, MEASURED)


def test_a_current_line_is_shown_before_a_stale_one_and_the_earliest_of_these() -> None:
    stale = line(0.1, 1, platform="a", finished="2020")
    stale.record.provenance["versions"]["engine"] = 0  # type: ignore[index]
    late, early = (line(0.2, 1, "b", "x", "2026-2"), line(0.3, 1, "c", "x", "2026-1"))
    assert known(stale, late, early).line("cell 1") is early
    assert known(stale).line("cell 1") is stale
    assert known(stale).line("cell 2") is None
