"""The self-test: what runs and learns on the embedded digits, by the rule that deals them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.report.run_details import self_test
from repfl.bench.report.site import facts
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, Here, task


def run(value: float | None, status: str = "done") -> dict[str, Any]:
    return {"value": value, "floor": 50.0, "status": status, "from": "computed here"}


def test_every_distinct_cell_is_counted_once_below_the_rule_that_deals_its_data() -> None:
    planned = plan(Selection(scale="smoke", papers=["fedpurin", "fedselect"]))
    table = self_test(planned, {})
    rules = [column["rule"] for column in table["columns"]]
    assert sorted(rules) == ["class-shards", "client-dirichlet"]
    assert table["columns"][rules.index("client-dirichlet")]["dealt"][:2] == [0.01, 0.1]
    cells = list(unique(planned))
    assert sum(row["all"]["planned"] for row in table["rows"]) == len(cells)
    by_rule = [row["cells"][rules.index("class-shards")] for row in table["rows"]]
    dealt = [item for item in cells if item.cell.recipe.partition.rule == "class-shards"]
    assert sum(each["planned"] for each in by_rule if each) == len(dealt)
    assert {row["all"]["done"] for row in table["rows"]} == {0}


def test_what_is_above_the_floor_and_what_fell_is_counted() -> None:
    planned = plan(Selection(scale="smoke", papers=["fedpurin"], methods=["fedbn"]))
    first, second, third, *_ = [item.cell.id for item in unique(planned)]
    told = {first: run(80.0), second: run(40.0), third: run(None, "failed")}
    (row,) = self_test(planned, told)["rows"]
    assert row["method"] == "fedbn"
    assert {name: row["all"][name] for name in ("done", "above", "fell", "here", "value")} == {
        "done": 2, "above": 1, "fell": 1, "here": 3, "value": 80.0,
    }  # fmt: skip


def test_it_reads_records_and_no_curves(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = task()
    compute(wanted)
    monkeypatch.delattr(Store, "frame")
    items = [Planned(wanted.cell, "tests", "table1", "table", "row", "two", "two", "smoke")]
    (row,) = facts.self_test(items, store)["table"]["rows"]
    assert [(cell["done"], cell["here"]) for cell in row["cells"]] == [(1, 1)]


def test_smoke_stands_in_for_no_number_unless_it_is_named(here: Here, tmp_path: Path) -> None:
    out = tmp_path / "out"
    where = ["--results", str(tmp_path / "none"), "--out", str(out)]
    for scale, shown in (([], ",desk,"), (["--scale", "smoke"], ",smoke,")):
        assert here("report", "--artefact", "fedpurin/table1", *scale, *where).code == 0
        text = (out / "fedpurin" / "table1.csv").read_text()
        assert [each for each in (",desk,", ",smoke,") if each in text] == [shown]
