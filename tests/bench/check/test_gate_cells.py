"""The gate's cells between them exercise whatever the papers' grids use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from repfl.bench.check.gate import read_reference
from repfl.bench.check.gate_cells import cells, grid, key, parse_key
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.grid import SCALES
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.clients import clients_of

Used = set[tuple[str, Any]]

ELSEWHERE = {
    ("partition.rule", "domain"),  # digits have no domains
    ("domain.test_share", "set"),
    ("class-shards.test_share", "set"),  # digits have a test split
    *((f"persons.{name}", "set") for name in ("train", "train_share", "test_share")),
    ("partition.rule", "persons"),  # nor have they persons or time
    ("model", "conv1d"),
    ("class-shards.client_classes", "set"),
}
"""What embedded digits cannot show, and tests/datasets/test_partitions.py looks at instead."""
DATA = ("dataset", "label")
"""What data there are is no option of the code that the gate runs."""
SWITCHES = dict.fromkeys(("momentum", "weight_decay", "clip"), (0,))
SWITCHES |= dict.fromkeys(("lr_decay", "participation"), (1,))
SWITCHES |= dict.fromkeys(("every", "start_every", "finetuned_every"), (0, 1))
"""Numbers some values of which switch something off, or mean something of their own."""


def used_by(cell: Cell) -> Iterator[tuple[str, Any]]:
    """The options that a cell uses: the kind of value of every field of its recipe, and its
    method's choices.
    """
    yield from _kinds(cell.json["recipe"], "")
    for name, value in cell.options.items():
        if isinstance(value, str | bool) or value is None:
            yield f"{cell.method}.{name}", value


def _kinds(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        field = f"{prefix}{name}"
        if field == "partition.options":
            yield from (
                (f"{values['rule']}.{option}", "set")
                for option, given in value.items()
                if given is not None
            )
        elif isinstance(value, Mapping):
            yield from _kinds(value, f"{field}.")
        elif name == "norm":
            yield field, value if value in ("unit", "raw") else "mean and deviation"
        elif isinstance(value, list) and field not in ("input",):
            yield from ((field, item if isinstance(item, str) else "set") for item in value)
        elif name not in DATA:
            yield field, _kind(name, value)


def _kind(name: str, value: Any) -> Any:
    if isinstance(value, str | bool) or value is None:
        return value
    return value if value in SWITCHES.get(name, ()) else "set"


@pytest.fixture(scope="module")
def grids() -> Used:
    """What the grids of all papers use, at every scale."""
    cells = {item.cell.id: item.cell for scale in SCALES for item in plan(Selection(scale=scale))}
    return {used for cell in cells.values() for used in used_by(cell)}


@pytest.fixture(scope="module")
def gate() -> Used:
    return {used for planned in cells().values() for used in used_by(planned.cell)}


def test_every_option_of_the_grids_is_exercised_or_left_to_other_tests(
    grids: Used, gate: Used
) -> None:
    assert grids - gate == ELSEWHERE
    # and reports that no grid asks for
    assert {("evaluation.rule", "best-val"), ("evaluation.rounds", "set")} <= gate


def test_the_gate_sees_every_method_and_every_variant() -> None:
    from repfl.algorithms.core.method import methods

    found = cells()
    assert {planned.cell.method for planned in found.values()} == set(methods())
    assert len({planned.cell.id for planned in found.values()}) == len(found)
    assert all(key(parse_key(each)) == each for each in found)
    assert found.keys() == read_reference(None)["cells"].keys()


def clients(recipe: str) -> Any:
    cell = next(item.cell for item in cells(["fedavg"]).values() if item.column == recipe)
    return clients_of(cell), grid().recipe(recipe, "smoke")


def test_batches_of_one_sample_and_clients_of_unequal_size_are_there() -> None:
    found, recipe = clients("fedobp")
    assert recipe.training.skip_single
    assert any(len(part) % recipe.training.batch == 1 for part in found.data.train)
    found, recipe = clients("star-pfl")
    assert recipe.training.weighting == "uniform"
    assert len({len(part) for part in found.data.train}) > 1
    assert all(len(part) for part in found.data.val)


def test_every_option_of_a_method_has_two_values() -> None:
    """An option with one value could be a constant, or another option's."""
    seen: dict[tuple[str, str], set[str]] = {}
    for item in cells().values():
        for name, value in item.cell.options.items():
            seen.setdefault((item.cell.method, name), set()).add(str(value))
    assert [option for option, values in seen.items() if len(values) == 1] == []


def test_every_pass_over_samples_has_a_second_step_and_clients_who_need_none() -> None:
    from repfl.algorithms.core.federation import PASS_BATCH
    from repfl.algorithms.engine.evaluate import BATCH

    found, _ = clients("passes")
    for parts, step in ((found.data.train, PASS_BATCH), (found.data.test, BATCH)):
        sizes = sorted(len(part) for part in parts)
        assert sizes[-2] < step < sizes[-1] < 2 * step


def test_some_clients_are_never_seen_before_newcomers_are_scored() -> None:
    from repfl.bench.run.clients import make
    from repfl.bench.run.task import Options

    cell = cells(["fedavg"])["fedavg strangers 1"].cell
    run = make(cell, clients_of(cell), Options(precision="fp64", stack=1))
    run.start()
    seen: set[int] = set()
    while not run.done:
        run.step()
        seen |= set(run.fed.active_ids)
    assert 1 < len(seen) < run.fed.N
    assert run.newcomers is not None


def test_every_paper_and_every_normalisation_has_a_recipe() -> None:
    names = grid().file.recipes
    recipes = [recipe for name in names if (recipe := grid().recipe(name, "smoke"))]
    assert {recipe.norm for recipe in recipes} == {"unit", "raw", "standard"}
    assert {item.paper for item in plan(Selection(scale="smoke"))} <= set(names)


def test_validation_and_test_data_choose_other_rounds() -> None:
    entry = read_reference(None)["cells"]["fedavg star-pfl 1"]["metrics"]
    chosen, best = (entry["points"]["pre_agg"][rule]["round"] for rule in ("best_val", "max"))
    assert len({chosen, best, grid().recipe("star-pfl", "smoke").training.rounds}) == 3
    assert entry["round"] == chosen
