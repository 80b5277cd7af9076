"""`repfl plan`: what it does once, however many cells there are, and stale values, which are listed
with their reasons and computed again on demand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from repfl.bench.evidence import plan_status
from repfl.bench.evidence.committed.committed_run import Line
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.store import store as stores
from repfl.bench.store import versions
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from tests.bench import invented
from tests.bench.conftest import Here, rewrite, stored


def test_every_record_is_read_once_and_no_measured_line_beside_it(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def counted(module: Any, name: str) -> Mock:
        monkeypatch.setattr(module, name, calls := Mock(wraps=getattr(module, name)))
        return calls

    asked = ("--artefact", "star-pfl/fig1", "--results", tmp_path)
    assert here("run", *asked, "--executor", "inline").code == 0
    decoded, lines, read = (
        counted(*each) for each in ((stores, "decode"), (plan_status, "read"), (grids, "_read"))
    )
    assert here("plan", *asked).code == 0
    assert decoded.call_count == len(Store(tmp_path).ids()) == 1
    assert not lines.called
    assert {call.args[0].parent.name for call in read.call_args_list} == {"star_pfl"}


@pytest.fixture
def lines(grid: Path, monkeypatch: pytest.MonkeyPatch) -> CommittedRuns:
    """CommittedRuns values of the grid: FedAvg's by an earlier engine, the others by today's."""
    found = CommittedRuns()
    for item in plan(Selection(files=[grid])):
        today = versions.of_cell(item.cell.json)
        today |= {"engine": 0} if item.cell.method == "fedavg" else {}
        made = invented.origin(versions=today, dirty=False)
        found.add(Line(Record(item.cell.id, item.cell.json, "done", "", invented.VALUE, made)))
    monkeypatch.setattr(plan_status, "read", lambda paper, scale: found)
    return found


def listed(here: Here, grid: Path, results: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        here("plan", "--grid", grid, "--results", results, "--stale", "--json").out
    )
    return found


def test_stale_values_are_listed_with_their_reason_and_computed_once(
    here: Here, grid: Path, tmp_path: Path, lines: CommittedRuns
) -> None:
    where = ("--grid", grid, "--results", tmp_path)
    found = listed(here, grid, tmp_path)
    assert ({line["method"] for line in found["cells"]}, found["stale"]) == ({"fedavg"}, 4)
    said = here("plan", *where, "--stale").out
    assert "fedavg: made by engine 0 (today 1)" in said
    assert all(line["id"][:12] in said for line in found["cells"])
    assert "4 values are stale" in here("plan", *where).out
    assert "4 computed" in here("run", *where, "--stale", "--executor", "inline").out
    assert "is stale; --scale" in here("plan", *where, "--stale").out
    assert "nothing to do" in here("run", *where, "--stale", "--executor", "inline").out


def test_what_was_made_with_other_data_is_stale_and_told(
    here: Here, grid: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_status, "read", lambda paper, scale: CommittedRuns())
    run = ("run", "--grid", grid, "--results", results, "--executor", "inline")
    store = Store(results)
    cell = sorted(store.ids())[0]
    record = stored(store, cell)
    other = record.origin.changed(data={"digits/train": "0" * 64})
    rewrite(store, replace(record, provenance=other))
    (line,) = listed(here, grid, results)["cells"]
    assert line["id"] == cell
    assert line["stale"].startswith("made with other data: digits/")
    assert "made with other data: digits/" in here(*run).out
    assert "1 computed" in here(*run, "--stale").out
    assert listed(here, grid, results)["stale"] == 0
