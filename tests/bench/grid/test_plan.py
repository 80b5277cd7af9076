"""Plans: selectors, added rows, shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid.plan import Selection, plan, shard
from repfl.bench.grid.planned import unique
from repfl.bench.run.cost import static


def planned(grid: Path, **selectors: Any) -> list[Any]:
    return plan(Selection(files=[grid], **selectors))


def test_selectors_narrow(grid: Path) -> None:
    assert {item.artefact for item in planned(grid, artefacts=["tests/fig1"])} == {"fig1"}
    assert {item.cell.method for item in planned(grid, methods=["local"])} == {"local"}
    assert {item.cell.seed for item in planned(grid, seeds=[1])} == {1}
    assert len(planned(grid, datasets=["digits"])) == 10
    for column in ("three", "three clients"):
        assert {item.column for item in planned(grid, columns=[column])} == {"three"}
    chosen = planned(grid)[3].cell.id
    assert {item.cell.id for item in planned(grid, cells=[chosen[:9]])} == {chosen}


@pytest.mark.parametrize(
    ("selectors", "words"),
    [
        ({"papers": ["test"]}, "unknown paper 'test'; did you mean tests"),
        (
            {"artefacts": ["tests/tabel1"]},
            "unknown artefact 'tests/tabel1'; did you mean tests/table1",
        ),
        ({"artefacts": ["table1"]}, "is not of the form paper/name"),
        ({"artefacts": ["tets/table1"]}, "unknown paper 'tets'"),
        ({"methods": ["loca"]}, "unknown method 'loca'; did you mean local"),
        ({"datasets": ["digit"]}, "--dataset digit: no cell of .* has it; did you mean digits"),
        ({"seeds": [7]}, "--seed 7: no cell of .* has it; valid: 0, 1"),
        ({"columns": ["thre"]}, "--column thre: no cell of .* has it; did you mean three"),
        ({"cells": ["zz"]}, "--cell zz"),
        ({"scale": "smoek"}, "unknown scale 'smoek'; did you mean smoke"),
        ({"scale": "desk"}, "has no cells at scale desk"),
    ],
)
def test_wrong_selectors_are_refused(grid: Path, selectors: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        planned(grid, **selectors)


def test_a_method_that_a_table_lacks_becomes_a_row_of_it(grid: Path) -> None:
    items = planned(grid, methods=["fedper", "local"])
    assert {item.row for item in items} == {"Local", "FedPer"}
    added = [item for item in items if item.row == "FedPer"]
    assert {(item.artefact, item.column, item.cell.seed) for item in added} == {
        ("table1", c, s) for c in ("two", "three") for s in (0, 1)
    }


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
