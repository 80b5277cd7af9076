"""What pages say of a run is what its record holds; and the self-test, which counts runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repfl.bench.evidence.cell_evidence import CellEvidence, Records
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.report.run_details import MAX_CURVE_POINTS, describe_runs, outcome_table
from repfl.bench.report.site import facts
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, Here, stored, task


@pytest.mark.parametrize("rounds", [7, 2 * MAX_CURVE_POINTS + 2])
def test_the_facts_of_a_run_are_those_of_its_record(
    store: Store, compute: Compute, rounds: int
) -> None:
    """Of a method whose messages have codes; a long curve is thinned and keeps its ends."""
    wanted = task("fedpurin", training={"rounds": rounds, "epochs": 1})
    assert compute(wanted).status == "done"
    item = Planned(wanted.cell, "tests", "table1", "table", "row", "two", "two", "smoke")
    found = describe_runs([item], CellEvidence(Records(store), CommittedRuns()), "")[wanted.cell.id]
    record = stored(store, wanted.cell.id)
    curves, clients = (store.frame(record, f"{name}.parquet") for name in ("rounds", "clients"))
    assert curves is not None
    assert clients is not None

    sent = curves[curves["name"].str.startswith("traffic/")]
    assert sent.groupby("name")["value"].sum().min() > 0
    assert found["bytes"] == sent["value"].sum()
    assert found["value"] == pytest.approx(100 * record.value, abs=1e-4)
    assert found["floor"] == pytest.approx(100 * record.metrics.floor.clients, abs=1e-4)
    assert found["seconds"] == record.origin.seconds.wall
    assert found["memory"] == record.origin.peak_memory
    assert found["partition"] == record.origin.partition
    assert (found["seed"], found["round"], found["from"]) == (0, rounds, "computed here")

    curve = curves[curves["name"] == "post_agg/mean"].set_index("round")["value"]
    shown = dict(found["curve"])
    assert [*shown][:: len(shown) - 1] == [1, rounds]
    assert len(shown) == rounds if rounds <= MAX_CURVE_POINTS else len(shown) > rounds // 4
    assert [*shown.values()] == pytest.approx(list(100 * curve[[*shown]]), abs=1e-3)

    last = clients[(clients["point"] == "post_agg") & (clients["round"] == rounds)]
    shares = 100 * last["correct"] / last["total"]
    assert sorted(found["clients"]) == pytest.approx(sorted(shares), abs=1e-2)


# -- the self-test: what runs and learns on embedded digits, by the rule that deals them -----------


def run(value: float | None, status: str = "done") -> dict[str, Any]:
    return {"value": value, "floor": 50.0, "status": status, "from": "computed here"}


def test_every_distinct_cell_is_counted_once_below_the_rule_that_deals_its_data() -> None:
    planned = plan(Selection(scale="smoke", papers=["fedpurin", "fedselect"]))
    table = outcome_table(planned, {})
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
    (row,) = outcome_table(planned, told)["rows"]
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
