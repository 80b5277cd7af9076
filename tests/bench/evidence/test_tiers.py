"""Many hands: lines of several platforms and contributors stand side by side, and the better
founded one is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repfl.algorithms.core import ENGINE
from repfl.bench.evidence import measured, noise, recheck, tiers
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.lines import AXES, Line
from repfl.bench.evidence.measured import Measured
from repfl.bench.evidence.packing import Counts, check_counts, pack_counts, unpack_counts
from repfl.bench.evidence.tiers import Tier
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Planned, Selection, plan
from repfl.bench.run.task import Outcome, Task
from repfl.bench.store.store import Record, Store
from repfl.paper_tables.core import noise as model
from repfl.paper_tables.core.statistics import Prior
from repfl.paper_tables.core.verdict import Runs, compare

Compute = Callable[..., Outcome]


def line(
    value: float | None,
    seed: int = 0,
    platform: str = "here",
    contributor: str = "founders",
    **said: Any,
) -> Line:
    """An invented line."""
    axes = dict.fromkeys(AXES, "x") | {
        "method": "fedavg",
        "version": "1",
        "hp": {},
        "dataset": "digits",
        "seed": str(seed),
    }
    made = {
        "platform": {"fingerprint": platform},
        "contributor": contributor,
        "finished": "2026",
        "versions": {"engine": ENGINE, "method": 1, "dataset": 1},
    }
    digests = {"digests": {"state": f"{value} {platform}"}}
    return Line(
        Record(f"cell {seed}", {}, "done", "", {"value": value}, {**made, **digests, **said}), axes
    )


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
    assert 100 * tiers.apart(SEEDS[0], known(*SEEDS)) == pytest.approx(found.high)
    assert found.high == pytest.approx(4.33, abs=0.01)


def test_what_is_expected_of_a_line_is_what_is_expected_of_its_table_s_cell() -> None:
    """One noise model for verdicts and for tiers."""
    held = measured.read("star-pfl", "smoke")
    some = next(each for each in held.lines if each.value is not None)
    where = ("star-pfl/" + str(some.axes["column"]), str(some.axes["method"]))
    pool = model.pool("smoke", one_partition=False)
    assert noise.of_line(some, held) == noise.fitted().expected(pool, *where)
    assert noise.of_line(some, held) != noise.fitted().expected("another pool", *where)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("other", "tier"),
    [
        (line(0.505, 1, platform="there"), Tier.CONFIRMED),
        (line(0.505, 1, contributor="visitor"), Tier.MEASURED),
        (line(0.53, 1, platform="there"), Tier.MEASURED),
        (line(0.56, 1, platform="there"), Tier.MEASURED),
        (line(None, 1, platform="there"), Tier.MEASURED),
    ],
    ids=["close", "close here", "beyond a point", "beyond the noise", "without a value"],
)
def test_a_second_line_confirms_within_a_point_and_the_noise(other: Line, tier: Tier) -> None:
    later = {**other.record.provenance, "finished": "2027"}
    found = tiers.tiers(
        known(*SEEDS, replace(other, record=replace(other.record, provenance=later)))
    )
    assert found["cell 1"] is tier
    assert found["cell 2"] is Tier.MEASURED


def test_equal_bits_on_one_platform_are_a_recomputation_whoever_ran_it() -> None:
    visitor, elsewhere = line(0.50, 1, contributor="visitor"), line(0.50, 1, platform="there")
    assert tiers.tiers(known(*SEEDS, visitor))["cell 1"] is Tier.RECOMPUTED
    assert tiers.tiers(known(*SEEDS, visitor, elsewhere))["cell 1"] is Tier.CONFIRMED


def test_equal_bits_agree_whatever_the_noise() -> None:
    one = line(0.5, 1)
    other = replace(
        one,
        record=replace(one.record, provenance={**one.record.provenance, "contributor": "visitor"}),
    )
    assert tiers.agree(one, other, known(one, other))


def planned(grid: Path) -> list[Planned]:
    return plan(Selection(files=[grid], papers=["tests"]))


def test_collecting_elsewhere_adds_lines_and_takes_none_away(
    grid: Path, compute: Compute, store: Store, tmp_path: Path
) -> None:
    items, root = planned(grid), tmp_path / "papers"
    compute(Task(items[0].cell))
    collect(items, store, root, "founders")
    collect(items, store, root, "visitor")
    found = measured.read("tests", "smoke", root)
    assert {each.contributor for each in found.lines} == {"founders", "visitor"}
    assert set(tiers.tiers(found).values()) == {Tier.RECOMPUTED}
    assert len(found.records) == 1


def test_a_run_that_contradicts_a_line_of_the_same_versions_is_not_taken(
    grid: Path, compute: Compute, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "repfl.bench.store.provenance.commit", lambda: {"commit": "c" * 40, "dirty": False}
    )
    items, root = planned(grid), tmp_path / "papers"
    compute(Task(items[0].cell))
    collect(items, store, root, "founders")
    held = measured.read("tests", "smoke", root)
    (before,) = held.lines
    said = {**before.record.provenance, "digests": {**before.digests, "state": "f" * 64}}
    held.add(replace(before, record=replace(before.record, provenance=said)))
    measured.write(held)
    done = collect(items, store, root, "founders")
    assert len(done.conflicts) == 1
    assert "came out otherwise from the same versions" in done.conflicts[0]
    assert measured.read("tests", "smoke", root).lines[0].digests["state"] == "f" * 64


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"REPFL_CONTRIBUTOR": "Ada Lovelace"}, "ada-lovelace"),
        ({"CI": "true"}, "ci"),
        ({"REPFL_CONTRIBUTOR": "../../x"}, "x"),
        ({"REPFL_CONTRIBUTOR": "/"}, "anonymous"),
    ],
)
def test_contributors_have_plain_names(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CI", "REPFL_CONTRIBUTOR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert measured.contributor() == name


def test_packed_counts_come_back_and_are_short() -> None:
    total = np.full(100, 100)
    counts = Counts(np.arange(100), np.arange(100) % 60 + 30, total)
    text = pack_counts(counts)
    assert len(text) < 350
    back = unpack_counts(text)
    assert back is not None
    assert all(map(np.array_equal, back, counts))
    with pytest.raises(ValueError, match="differ in length"):
        check_counts("0:1:1|3|4 4")


def test_every_committed_line_holds() -> None:
    found = recheck.verify([])
    assert found.findings == []
    assert found.records > 900


def test_the_board_s_trials_are_no_runs_of_the_noise_model() -> None:
    """They differ in learning rates, which no axis of a line has."""
    assert measured.read("board", "paper").cells
    assert set(noise.measured_runs()["setting"].str.partition("/")[0]) <= set(grids.printed())
