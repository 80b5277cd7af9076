"""A record answers: what was run, where, what came out, and how to have it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from repfl.bench.evidence.committed import committed_runs
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.task import Task
from repfl.bench.store import provenance
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, Compute, Here, Said, run_in, stored, task


def again(said: Said) -> list[str]:
    """Return the arguments of the command that a shown record ends with."""
    (line,) = [line for line in said.out.splitlines() if line.startswith("again")]
    words = shlex.split(line.removeprefix("again"))
    assert words[:2] == ["repfl", "run"]
    assert words[-1] == "--fresh"
    return words[1:]


def test_the_command_that_a_record_ends_with_makes_it_again(
    here: Here, grid: Path, tmp_path: Path, faulty: Path
) -> None:
    """For a grid of one's own, and for a method from a file, which no grid has."""
    joined = ("--plugin", str(FAULTY), "--method", "test-slow[seconds=0]")
    for number, more in enumerate([(), joined]):
        first, second = (Store(tmp_path / f"{name}{number}") for name in ("first", "second"))
        asked = ("run", "--grid", grid, "--artefact", "tests/table1", "--seed", "1")
        how = ("--executor", "inline")
        assert here(*asked, *how, *more, "--results", first.root).code == 0
        cell = first.ids()[0]
        arguments = again(here("show", cell[:10], "--results", first.root))
        done = here(*arguments, "--results", second.root, *how)
        assert done.code == 0, done.err
        assert second.ids() == [cell]
        digests = [stored(store, cell).origin.digests for store in (first, second)]
        assert digests[0] == digests[1]


def test_a_record_shows_all_that_it_knows(
    here: Here, store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "commit", lambda: {"commit": "first", "dirty": False})
    compute(task("fedavg", 1))
    record = stored(store, store.ids()[0])
    said = here("show", record.id[:8], "--results", store.root)
    assert said.code == 0
    for part in (
        record.id,
        "training.rounds",
        f"{100 * record.value:.2f} % at round",
        f"{100 * record.metrics.floor.clients:.2f} %",
        "post_agg/mean",
        record.origin.digests["state"],
        record.origin.platform.fingerprint,
        record.origin.libraries.torch,
    ):
        assert part in said.out
    told = here("show", record.id, "--results", store.root, "--json")
    assert json.loads(told.out) == record.json
    # only a record of another commit names its own
    assert "computed at commit" not in said.out
    monkeypatch.setattr(provenance, "commit", lambda: {"commit": "second", "dirty": False})
    assert "computed at commit first;" in here("show", record.id, "--results", store.root).out


def test_an_interrupted_cell_says_after_which_round(here: Here, grid: Path, store: Store) -> None:
    cell = plan(Selection(files=[grid]))[0].cell
    assert run_in(store.root, Task(cell), stop=lambda: True).status == "interrupted"
    for command in (["plan", "--grid", grid], ["show", cell.short]):
        said = here(*command, "--results", store.root)
        assert "interrupted after round 1;" in said.out + said.err


def test_a_committed_value_is_shown_if_there_is_no_record(here: Here, tmp_path: Path) -> None:
    lines = committed_runs.read("fedpurin", "smoke").lines
    cell, record = next((line.cell, line.record) for line in lines if line.value is not None)
    said = here("show", cell[:16], "--results", tmp_path)
    assert said.code == 0
    value = f"{100 * record.value:.2f} % at round"
    for part in (cell, value, record.origin.digests["state"]):
        assert part in said.out
    command = again(said)
    assert command[command.index("--cell") + 1] == cell[:12]
    assert json.loads(here("show", cell, "--results", tmp_path, "--json").out)["id"] == cell
    # what was made on a GPU is repeated on one
    lines = committed_runs.read("fedobp", "paper").lines
    line = next(line for line in lines if line.record.origin.device.startswith("cuda"))
    command = again(here("show", line.cell, "--results", tmp_path))
    assert command[command.index("--device") + 1] == "cuda"
    assert command[command.index("--precision") + 1] == line.record.origin.precision


def test_two_grids_of_one_name_are_refused_and_a_grid_may_have_a_papers_name(
    here: Here, grid: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    twin, own = tmp_path / "other" / grid.name, tmp_path / "fedpurin.toml"
    for path in (twin, own):
        path.write_text(grid.read_text())
    said = here("plan", "--grid", grid, "--grid", twin, "--results", tmp_path / "r")
    assert (said.code, "two files have the same name" in said.err) == (2, True)
    facts = json.loads(here("plan", "--grid", own, "--results", tmp_path / "r", "--json").out)
    assert facts["distinct"] == 8
    said = here("show", "tests/table1", "--grid", grid)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert f"repfl report --grid {grid}" in said.err
