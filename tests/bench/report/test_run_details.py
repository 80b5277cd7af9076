"""What pages say of a run is what its record holds."""

from __future__ import annotations

import pytest

from repfl.bench.evidence.cell_evidence import CellEvidence, Records
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid.planned import Planned
from repfl.bench.report.run_details import MAX_CURVE_POINTS, describe_runs
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, stored, task


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
    assert found["value"] == pytest.approx(100 * record.metrics["value"], abs=1e-4)
    assert found["floor"] == pytest.approx(100 * record.metrics["floor"]["clients"], abs=1e-4)
    assert found["seconds"] == record.provenance["seconds"]["wall"]
    assert found["memory"] == record.provenance["peak_memory"]
    assert found["partition"] == record.provenance["partition"]
    assert (found["seed"], found["round"], found["from"]) == (0, rounds, "computed here")

    curve = curves[curves["name"] == "post_agg/mean"].set_index("round")["value"]
    shown = dict(found["curve"])
    assert [*shown][:: len(shown) - 1] == [1, rounds]
    assert len(shown) == rounds if rounds <= MAX_CURVE_POINTS else len(shown) > rounds // 4
    assert [*shown.values()] == pytest.approx(list(100 * curve[[*shown]]), abs=1e-3)

    last = clients[(clients["point"] == "post_agg") & (clients["round"] == rounds)]
    shares = 100 * last["correct"] / last["total"]
    assert sorted(found["clients"]) == pytest.approx(sorted(shares), abs=1e-2)
