"""The next cells are those that are expected to settle most per hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from repfl.bench.cells.absent import data_absent
from repfl.bench.cells.narrowing import Selection
from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import unique
from repfl.bench.errors import UserError
from repfl.bench.evidence import settle
from repfl.bench.evidence.hindsight import hindsight
from repfl.bench.evidence.library import Library
from repfl.bench.evidence.measured import read
from repfl.bench.evidence.scene import Number, Scene, scene
from repfl.bench.evidence.settle import Chooser
from repfl.bench.records.store import Store
from repfl.bench.running.cost import Speeds
from repfl.paper_tables.core.statistics import Expected
from repfl.paper_tables.core.verdict import Runs

QUIET, LOUD = Expected(0.01, 10.0), Expected(25.0, 10.0)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Table III on CIFAR-10 as it stands."""
    planned = plan(Selection(artefacts=["fedobp/table3"], datasets=["cifar10"], scale="paper"))
    return scene(planned, Library(Store(tmp_path_factory.mktemp("results"))))


def number(name: str, ids: Sequence[str], expected: Expected = QUIET) -> Number:
    return Number("paper/table", name, "column", Runs(80.0, count=3), tuple(ids), expected)


@pytest.fixture
def blank(real: Scene) -> Scene:
    """Its cells with nothing measured and no number; tests say what they are for."""
    return replace(real, numbers=[], sentences={}, done=frozenset(), spread=0.5)


def seeds(scene: Scene, row: str, column: str = "cifar10-dir0.1") -> list[str]:
    return [
        item.cell.id for item in scene.planned.values() if (item.row, item.column) == (row, column)
    ]


def rows(scene: Scene, hours: float) -> list[str]:
    return [choice.cells[0].row for choice in Chooser(scene, Speeds()).choose(hours)]


def test_every_number_that_can_be_judged_knows_its_cells(real: Scene) -> None:
    assert len(real.numbers) == 58
    assert all(set(each.ids) <= set(real.planned) for each in real.numbers)
    assert {each.printed.count for each in real.numbers} == {1, 4}  # of logs, and of the table
    ours = next(
        each for each in real.numbers if str(each) == "fedobp/table3 FedOBP, cifar10-dir0.1"
    )
    assert ours.settled
    assert ours.ours is not None
    assert set(ours.ids) & real.done


def test_quiet_numbers_come_before_loud_ones(blank: Scene) -> None:
    quiet, loud = seeds(blank, "FedPer")[:1], seeds(blank, "LG-FedAvg")[:1]
    both = replace(blank, numbers=[number("loud", loud, LOUD), number("quiet", quiet)])
    assert rows(both, 100)[0] == "FedPer"


def test_a_cell_that_serves_several_numbers_counts_for_each(blank: Scene) -> None:
    shared, alone = seeds(blank, "FedPer")[:1], seeds(blank, "LG-FedAvg")[:1]
    numbers = [number("one", alone), number("two", shared), number("three", shared)]
    chooser = Chooser(replace(blank, numbers=numbers), Speeds())
    first = chooser.choose(100)[0]
    assert first.cells[0].row == "FedPer"
    assert len(first.gains) == 2


def test_cheap_cells_come_before_dear_ones(blank: Scene) -> None:
    cheap, dear = seeds(blank, "FedRep")[:1], seeds(blank, "APFL")[:1]
    both = replace(blank, numbers=[number("dear", dear), number("cheap", cheap)])
    assert rows(both, 100) == ["FedRep", "APFL"]
    hours = Speeds().cost([both.planned[cheap[0]].cell]).seconds / 3600
    assert rows(both, 1.01 * hours) == ["FedRep"]
    assert rows(both, 0.99 * hours) == []


def test_seeds_that_settle_only_together_are_taken_together(blank: Scene) -> None:
    several = seeds(blank, "FedPer")
    assert len(several) > 1
    noisy = replace(blank, numbers=[number("noisy", several, Expected(0.15, 2.0))])
    first = Chooser(noisy, Speeds()).choose(1000)[0]
    assert len(first.cells) > 1
    assert first.gains[0].runs == len(first.cells)


def test_what_is_settled_done_or_impossible_is_not_chosen(blank: Scene) -> None:
    cell = seeds(blank, "FedPer")[:1]
    wanted = replace(blank, numbers=[number("one", cell)])
    assert Chooser(wanted, Speeds()).choose(100)
    assert not Chooser(wanted, Speeds(), {cell[0]: "no data"}).choose(100)
    assert not Chooser(replace(wanted, done=frozenset(cell)), Speeds()).choose(100)
    settled = replace(number("one", cell), ours=Runs(99.0), verdict="differs")
    assert not Chooser(replace(blank, numbers=[settled]), Speeds()).choose(100)


def test_sentences_count(blank: Scene) -> None:
    cell = seeds(blank, "FedPer")[0]
    told = Chooser(replace(blank, sentences={cell: 0.5}), Speeds()).choose(100)
    assert [choice.cells[0].cell.id for choice in told] == [cell]
    assert told[0].expected == 0.5


def test_in_hindsight_it_would_have_settled_the_same_numbers_sooner(real: Scene) -> None:
    found = hindsight(real, Speeds(), {})
    assert set(found.taken.cells) == set(found.ordered.cells) == real.done & set(real.planned)
    assert len(found.taken.settled) == len(found.ordered.settled) >= 3
    assert found.ordered.mean < found.taken.mean
    assert found.free > found.expected


def test_in_hindsight_cells_that_no_printed_number_hangs_on_were_not_taken(real: Scene) -> None:
    board = unique(plan(Selection(artefacts=["board/table1"], scale="paper")))
    done = read("board", "paper").cells
    item = next(item for item in board if item.cell.id in done)
    both = replace(real, planned={**real.planned, item.cell.id: item})
    assert item.cell.id not in hindsight(both, Speeds(), {}).taken.cells


@pytest.mark.parametrize("hours", [0.0, -1.0, float("nan"), float("inf")])
def test_hours_must_be_some(hours: float) -> None:
    with pytest.raises(UserError, match=r"--hours .* is not valid"):
        settle.check_hours("--hours", hours)


def test_data_that_are_not_here_cannot_be_computed(
    real: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path))
    data_absent.cache_clear()
    found = settle.impossible(real.planned.values())
    data_absent.cache_clear()
    assert found.keys() == real.planned.keys()
    assert all("is not prepared" in why for why in found.values())
