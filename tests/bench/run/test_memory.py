"""What cells need is known before they run: by arithmetic, and by what cells like them held."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.grid.cell import canonical
from repfl.bench.run import machine, memory
from repfl.bench.store.store import Record
from tests.bench.conftest import Here, task

MODEL = 878538 * 4
"""Bytes of cnn4 for 32 x 32 x 3 and 10 classes."""


@pytest.mark.parametrize(
    ("method", "copies"), [("fedavg", 0), ("fedper", 5130 * 4 / MODEL), ("ditto", 1), ("local", 1)]
)
def test_a_methods_state_is_what_its_clients_own(method: str, copies: float) -> None:
    cell = task(method, model="cnn4", dataset="cifar10", clients=10_000, participation=0.01).cell
    state = memory.state_bytes(method, canonical(cell.options), canonical(cell.json["recipe"]))
    assert state == pytest.approx((10_000 * copies + 1) * MODEL, rel=0.02)


def test_what_cells_like_it_have_held_is_believed() -> None:
    cell = task(seed=1).cell
    made = [{"device": "cpu", "peak_memory": peak << 30} for peak in (3, 9)]
    peaks = memory.peaks_of([Record(cell.id, cell.json, "done", "", {}, each) for each in made])
    assert memory.needed(task(seed=2).cell, "cpu", {}) < 1 << 30
    assert 8 << 30 < memory.needed(task(seed=2).cell, "cpu", peaks) < 9 << 30
    assert memory.needed(task(clients=4).cell, "cpu", peaks) < 1 << 30


def test_a_cell_that_no_memory_can_hold_is_refused_and_the_others_run(
    here: Here, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda device: (2 << 30, 4 << 30))
    needed = {2: 1 << 30, 3: 9 << 30}
    monkeypatch.setattr(memory, "needed", lambda cell, *_: needed[cell.recipe.clients])
    said = here("run", "--grid", grid, "--results", tmp_path / "r", "--executor", "inline")
    assert said.code == 2
    assert "needs about 9.0 GiB of memory, and there are 4.0 GiB" in said.err
    assert "4 computed" in said.out
    planned = here("plan", "--grid", grid, "--results", tmp_path / "r")
    assert "up to 9.0 GiB of memory for one of them, which is more than" in planned.out
