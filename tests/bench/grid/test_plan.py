"""Plans: selectors, added rows, shards."""

from __future__ import annotations

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid.catalog import find_recipe
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.methods import parse_spec
from repfl.bench.grid.plan import Selection, plan, shard
from repfl.bench.grid.planned import unique
from repfl.bench.grid.recipes import recipe_from
from repfl.bench.run.cost import static
from tests.bench.conftest import RECIPE, Planning


def test_selectors_narrow(planned: Planning) -> None:
    assert {item.artefact for item in planned(artefact="fig1")} == {"fig1"}
    assert {item.cell.method for item in planned(methods=["local"])} == {"local"}
    assert {item.cell.seed for item in planned(seeds=[1])} == {1}
    assert len(planned(datasets=["digits"])) == 10
    for column in ("three", "three [/] <i>$ a|b"):
        assert {item.column for item in planned(columns=[column])} == {"three"}
    chosen = planned()[3].cell.id
    assert {item.cell.id for item in planned(cells=[chosen[:9]])} == {chosen}


def test_a_method_that_a_table_lacks_becomes_a_row_of_it(planned: Planning) -> None:
    items = planned(methods=["fedper", "local"])
    assert {item.row for item in items} == {"Local", "FedPer"}
    added = [item for item in items if item.row == "FedPer"]
    assert {(item.artefact, item.column, item.cell.seed) for item in added} == {
        ("table1", c, s) for c in ("two", "three") for s in (0, 1)
    }


def test_a_joining_method_has_the_settings_that_most_rows_have() -> None:
    """Not those of the last row: FedSelect's Table 1 ends with rows of other scoring points."""
    items = plan(Selection(artefacts=["fedselect/table1"], methods=["fedprox"], scale="paper"))
    points = {i.cell.recipe.evaluation.point for i in items if i.column == "cifar10"}
    assert points == {"pre_agg"}


def test_hyphens_and_underscores_are_the_same_in_every_name_that_is_typed() -> None:
    partition = {"rule": "class-dirichlet", "options": {"alpha": 0.5, "test_share": 0.3}}
    typed = {"rule": "class_dirichlet", "options": {"alpha": 0.5, "test-share": 0.3}}
    kinds = {"dataset": "fashion_mnist", "model": "tiny-bn", "clients": 3}
    usual = recipe_from({**RECIPE, **kinds, "partition": partition}, "usual")
    other = {"dataset": "fashion-mnist", "model": "tiny_bn", "partition": typed}
    assert recipe_from({**RECIPE, **kinds, **other}, "typed") == usual
    assert parse_spec("star_pfl[head-epochs=2]") == ("star-pfl", {"head_epochs": 2})
    cells = [build_cell(name, {}, usual, 0).id for name in ("lg_fedavg", "lg-fedavg")]
    cells += [
        item.cell.id
        for name in ("lg_fedavg", "lg-fedavg")
        for item in plan(Selection(artefacts=["fedpurin/table1"], methods=[name], seeds=[1]))
        if item.column == "cifar10-dir0.1"
    ]
    assert cells[0::2] == cells[1::2]
    assert find_recipe("fedpurin/cifar10_dir0.1", None)[0] == "fedpurin/cifar10-dir0.1"
    with pytest.raises(UserError, match="unknown artefact 'fedpurin/table_1'"):
        plan(Selection(artefacts=["fedpurin/table_1"]))  # a hyphen is another thing than nothing


def test_shards_of_a_papers_cells_are_disjoint_complete_and_cost_the_same() -> None:
    items = plan(Selection(papers=["fedpurin"], scale="paper"))
    for parts in (2, 3, 8):
        shards = [shard(items, f"{part}/{parts}", static) for part in range(1, parts + 1)]
        ids = [{item.cell.id for item in part} for part in shards]
        again = shard(items[::-1], f"1/{parts}", static)  # in whatever order the plan is
        assert {item.cell.id for item in again} == ids[0]
        assert set.union(*ids) == {item.cell.id for item in items}
        assert sum(map(len, ids)) == len(unique(items))
        loads = [sum(map(static, unique(part))) for part in shards]
        assert max(loads) - min(loads) <= max(map(static, items))
        assert max(loads) <= 1.05 * sum(loads) / parts
