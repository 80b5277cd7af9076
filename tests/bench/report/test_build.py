"""A report from planned cells: what it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.grid.planned import Planned
from repfl.bench.report.site import facts
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, Here, task


def test_the_self_test_reads_records_and_no_curves(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = task()
    compute(wanted)
    monkeypatch.delattr(Store, "frame")
    items = [Planned(wanted.cell, "tests", "table1", "table", "row", "two", "two", "smoke")]
    (row,) = facts.self_test(items, store)["table"]["rows"]
    assert [(cell["done"], cell["here"]) for cell in row["cells"]] == [(1, 1)]


def test_smoke_stands_in_for_no_number(here: Here, tmp_path: Path) -> None:
    out = tmp_path / "out"
    where = ["--results", str(tmp_path / "none"), "--out", str(out)]
    assert here("report", "--artefact", "fedpurin/table1", *where).code == 0
    text = (out / "fedpurin" / "table1.csv").read_text()
    assert ",smoke," not in text
    assert ",desk," in text
    assert "It says nothing about any paper's numbers" in (out / "selftest.html").read_text()
    narrowed = here("report", "--artefact", "fedpurin/table1", "--scale", "smoke", *where)
    assert narrowed.code == 0
    assert ",smoke," in (out / "fedpurin" / "table1.csv").read_text()
