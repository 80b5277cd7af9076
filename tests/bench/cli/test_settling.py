"""`repfl settle` explains its cells, and `repfl run --settle` computes them, the best first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from repfl.bench.cells.narrowing import Selection
from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import unique
from repfl.bench.cli import settling
from repfl.bench.evidence.scene import Number, Scene
from repfl.bench.records.store import Store
from repfl.bench.running.cost import Speeds
from repfl.paper_tables.core.statistics import Expected
from repfl.paper_tables.core.verdict import Runs
from tests.bench.conftest import Said

Here = Callable[..., Said]
HOURS = "0.01"


@pytest.fixture
def scene(grid: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A small grid as if a paper's numbers hung on two of its cells, the dearer one's verdict
    being likelier.
    """
    items = unique(plan(Selection(files=[grid], seeds=[0])))
    cheap = next(item for item in items if item.cell.method == "local")
    dear = next(i for i in items if i.cell.method == "fedavg" and i.column == "three")
    numbers = [
        Number("tests/table1", "Local", "two", Runs(50.0), (cheap.cell.id,), Expected(0.5, 9)),
        Number("tests/table1", "FedAvg", "three", Runs(60.0), (dear.cell.id,), Expected(0.01, 9)),
    ]
    found = Scene({item.cell.id: item for item in items}, numbers, {}, frozenset(), 0.5)
    monkeypatch.setattr(settling, "_scene", lambda chosen, store: (found, Speeds()))
    return found


def test_every_choice_says_what_it_is_for(here: Here, scene: Scene) -> None:
    told = here("settle", "--hours", HOURS)
    assert told.code == 0
    first, second = scene.numbers[1], scene.numbers[0]
    assert f"{first}, printed 60: with 1 run" in told.out
    assert told.out.index(str(first)) < told.out.index(str(second))
    assert f"`repfl run --settle {HOURS}` computes them" in told.out


def test_choices_as_plain_data(here: Here, scene: Scene) -> None:
    found = json.loads(here("settle", "--hours", HOURS, "--json").out)
    assert [each["cells"] for each in found] == [
        list(number.ids) for number in reversed(scene.numbers)
    ]
    assert found[0]["low"] < found[0]["seconds"] < found[0]["high"]
    assert 0.5 < found[0]["expected"] <= found[0]["numbers"][0]["more"] <= 1


def test_a_run_computes_the_choices_in_their_order(
    here: Here, scene: Scene, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    options = ("--results", results, "--executor", "inline")
    done = here("run", "--settle", HOURS, *options)
    assert (done.code, "2 computed" in done.out) == (0, True)
    records = [Store(results).get(number.ids[0]) for number in reversed(scene.numbers)]
    ended = [record.provenance["finished"] for record in records if record is not None]
    assert len(ended) == 2
    assert ended == sorted(ended)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("settle", "--hours", "0"), ["--hours 0 is not valid", "such as 10"]),
        (("run", "--settle", "-2"), ["--settle -2 is not valid"]),
        (("run", "--settle", "0.0000001"), ["no cell that fits into these hours"]),
    ],
)
def test_hours_that_cannot_be_meant_cost_one_line(
    here: Here, scene: Scene, arguments: tuple[str, ...], parts: list[str]
) -> None:
    told = here(*arguments)
    assert told.code == 2
    assert told.err.count("\n") == 1
    assert all(part in told.err for part in parts)


def test_the_desk_scale_settles_nothing(here: Here) -> None:
    told = here("settle", "--scale", "desk")
    assert (told.code, "settles no printed number" in told.err) == (2, True)
