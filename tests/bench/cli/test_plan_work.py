"""What a plan does once, however many cells it has: counted, since time depends on the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from repfl.bench.evidence import plan_status
from repfl.bench.grid import grid
from repfl.bench.store import locks, store
from tests.bench.conftest import Here


def test_every_record_is_read_once_and_no_measured_line_beside_it(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def counted(module: Any, name: str) -> Mock:
        monkeypatch.setattr(module, name, calls := Mock(wraps=getattr(module, name)))
        return calls

    asked = ("--artefact", "star-pfl/fig1", "--results", tmp_path)
    assert here("run", *asked, "--executor", "inline").code == 0
    decoded, lines, grids = (
        counted(*each) for each in ((store, "decode"), (plan_status, "read"), (grid, "_read"))
    )
    assert here("plan", *asked).code == 0
    assert decoded.call_count == len(store.Store(tmp_path).ids()) == 1
    assert not lines.called
    assert {call.args[0].parent.name for call in grids.call_args_list} == {"star_pfl"}


def test_a_cell_that_somebody_computes_is_called_running(here: Here, tmp_path: Path) -> None:
    asked = ("plan", "--artefact", "star-pfl/fig1", "--results", tmp_path)
    (line, *_) = json.loads(here(*asked, "--json").out)["cells"]
    with locks.claim(store.Store(tmp_path), line["id"]):
        facts = json.loads(here(*asked, "--json").out)
        shown = here(*asked).out
    assert {each["status"] for each in facts["cells"] if each["id"] == line["id"]} == {"running"}
    assert "running" in shown.splitlines()[0]


def test_the_cheapest_comes_first(here: Here, tmp_path: Path) -> None:
    told = here("plan", "--paper", "fedpurin", "--results", tmp_path / "r", "--json")
    seconds = [line["seconds"] for line in json.loads(told.out)["cells"]]
    assert len(set(seconds)) > 1
    assert seconds == sorted(seconds)
