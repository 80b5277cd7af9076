"""Evidence: every planned cell, done or not, with what is known about it; measured values where there is no record."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bench.cells.plan import Planned, Selection, plan
from bench.errors import UserError
from bench.evidence import measured
from bench.evidence.library import Evidence, Library, flatten
from bench.evidence.measured import Measured
from bench.records.store import Store
from bench.running.task import Outcome, Task

Compute = Callable[..., Outcome]


def planned(grid: Path, artefact: str = "table1") -> list[Planned]:
    return plan(Selection(files=[grid], artefacts=[f"tests/{artefact}"]))


def evidence(items: list[Planned], store: Store, known: Measured | None = None) -> Evidence:
    return Evidence(items, Library(store), known or Measured(), pd.DataFrame())


def test_every_planned_cell_is_there(grid: Path, store: Store, compute: Compute) -> None:
    items = planned(grid)
    compute(Task(items[0].cell))
    found = evidence(items, store)
    cells = found.cells
    assert len(cells) == 8
    assert list(cells["status"]) == ["done"] + ["missing"] * 7
    assert cells["reason"][1] == "not computed yet"
    first = cells.iloc[0]
    assert 0 <= first["value"] <= 1
    assert math.isnan(cells["value"][1])
    assert (first["row"], first["column"], first["column_label"], first["seed"]) == ("Local", "two", "two clients", 0)
    assert first["partition.alpha"] == 0.5
    assert first["recipe.training.rounds"] == 2
    assert first["recipe.evaluation.points"] == ("pre_agg", "post_agg")
    assert 0 <= first["floor.clients"] <= 1
    assert first["traffic.up_values"] == 0
    assert first["parameters"] == 2746
    assert first["metrics"]["round"] == 2
    assert (found.scale, found.seeds) == ("smoke", (0, 1))


def test_curves_counts_and_arrays(grid: Path, store: Store, compute: Compute) -> None:
    items = planned(grid)
    compute(Task(items[0].cell))
    found, ids = evidence(items, store), [item.cell.id for item in items]
    assert set(found.rounds(ids)["id"]) == {ids[0]}
    assert set(found.clients(ids).columns) == {"id", "round", "point", "client", "correct", "total"}
    assert found.arrays(ids[0]) == {}
    assert list(found.rounds([]).columns) == ["id", "round", "name", "value"]


def test_a_damaged_record_is_missing_with_its_reason(grid: Path, store: Store, compute: Compute) -> None:
    items = planned(grid)
    compute(Task(items[0].cell))
    (store.folder(items[0].cell.id) / "clients.parquet").write_bytes(b"")
    library = Library(store)
    cells = Evidence(items, library, Measured(), pd.DataFrame()).cells
    assert cells["status"][0] == "missing"
    assert "clients.parquet" in cells["reason"][0]
    assert len(library.problems) == 1


def test_collected_values_stand_in_for_records(grid: Path, store: Store, compute: Compute, tmp_path: Path) -> None:
    items, root = planned(grid) + planned(grid, "fig1"), tmp_path / "papers"
    shared = next(item for item in items if item.kind == "figure")
    for item in (shared, items[0]):
        compute(Task(item.cell))
    assert measured.collect(items, store, root) == [(root / "tests" / "measured" / "smoke.csv", 2)]
    before = (root / "tests" / "measured" / "smoke.csv").read_bytes()
    empty = Store(tmp_path / "empty")
    measured.collect(items, empty, root)
    assert (root / "tests" / "measured" / "smoke.csv").read_bytes() == before
    with_records, without = evidence(items, store), evidence(items, empty, measured.read("tests", "smoke", root))
    assert set(without.cells["source"]) == {"measured", "record"}
    pd.testing.assert_frame_equal(with_records.cells.drop(columns="source"), without.cells.drop(columns="source"))
    curves = without.rounds([shared.cell.id])
    assert set(curves["name"]) == {"pre_agg/mean", "pre_agg/pooled", "post_agg/mean", "post_agg/pooled"}
    assert without.rounds([items[0].cell.id]).empty


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("smoke.csv", "id,method\n", r"smoke\.csv:1: columns"),
        ("smoke.csv", ",".join(measured.CELLS) + "\n1,2\n", r"smoke\.csv:2"),
        ("smoke.csv", ",".join(measured.CELLS) + "\n" + ",".join("x" * len(measured.CELLS)) + "\n", r"smoke\.csv:2: metrics"),
        ("smoke-curves.csv", ",".join(measured.CURVES) + "\na,b,c,d\n", r"smoke-curves\.csv:2"),
    ],
)
def test_a_broken_measured_file_is_named_with_its_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    folder = tmp_path / "tests" / "measured"
    folder.mkdir(parents=True)
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=words):
        measured.read("tests", "smoke", tmp_path)


def test_nested_values_become_dotted_names() -> None:
    assert flatten({"a": {"b": [1, 2], "c": {}}, "d": 3}, "x.") == {"x.a.b": (1, 2), "x.d": 3}
