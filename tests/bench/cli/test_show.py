"""A record answers: what was run, where, what came out, and how to have it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import repfl
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.task import Task
from repfl.bench.store import provenance
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, Compute, Here, Said, run_in, task


def again(said: Said) -> list[str]:
    """Return the arguments of the command that a shown record ends with."""
    (line,) = [line for line in said.out.splitlines() if line.startswith("again")]
    words = shlex.split(line.removeprefix("again"))
    assert words[:2] == ["repfl", "run"]
    assert words[-1] == "--fresh"
    return words[1:]


@pytest.mark.parametrize(
    "more", [(), ("--plugin", str(FAULTY), "--method", "test-slow[seconds=0]")]
)
def test_the_command_that_a_record_ends_with_makes_it_again(
    here: Here, grid: Path, tmp_path: Path, faulty: Path, more: tuple[str, ...]
) -> None:
    """For a grid of one's own, and for a method from a file, which no grid has."""
    first, second = Store(tmp_path / "first"), Store(tmp_path / "second")
    asked = ("--grid", grid, "--artefact", "tests/table1", "--seed", "1", "--executor", "inline")
    assert here("run", *asked, *more, "--results", first.root).code == 0
    cell = first.ids()[0]
    arguments = again(here("show", cell[:10], "--results", first.root))
    done = here(*arguments, "--results", second.root, "--executor", "inline")
    assert done.code == 0, done.err
    assert second.ids() == [cell]
    digests = [store.get(cell).provenance["digests"] for store in (first, second)]
    assert digests[0] == digests[1]


def test_a_record_made_from_python_ends_with_python(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = repfl.recipe("fedpurin/cifar10-dir0.1", clients=3, training={"rounds": 1})
    run = repfl.run("local", recipe, results=tmp_path / "first")
    said = here("show", run.id, "--results", tmp_path / "first").out
    (line,) = [line for line in said.splitlines() if line.startswith("again")]
    *python, code = shlex.split(line.removeprefix("again"))
    assert python == ["python", "-c"]
    monkeypatch.setenv("REPFL_RESULTS", str(tmp_path / "second"))
    exec(code, {})
    assert Store(tmp_path / "second").ids() == [run.id]


def test_a_record_shows_all_that_it_knows(here: Here, store: Store, compute: Compute) -> None:
    compute(task("fedavg", 1))
    record = store.get(store.ids()[0])
    said = here("show", record.id[:8], "--results", store.root)
    assert said.code == 0
    for part in (
        record.id,
        "fedavg version 1, seed 1: done",
        "training.rounds",
        f"{100 * record.metrics['value']:.2f} % at round",
        f"{100 * record.metrics['floor']['clients']:.2f} %",
        "post_agg/mean",
        record.provenance["digests"]["state"],
        record.provenance["platform"]["fingerprint"],
        record.provenance["libraries"]["torch"],
    ):
        assert part in said.out
    said = here("show", record.id, "--results", store.root, "--json")
    assert json.loads(said.out) == record.json


def test_only_a_record_of_another_commit_names_its_own(
    here: Here, store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    for head, told in (("first", False), ("second", True)):
        monkeypatch.setattr(provenance, "commit", lambda: {"commit": head, "dirty": False})  # noqa: B023
        compute(task("local"))
        said = here("show", store.ids()[0], "--results", store.root).out
        assert ("computed at commit first;" in said) == told


def test_an_interrupted_cell_says_after_which_round(here: Here, grid: Path, store: Store) -> None:
    cell = plan(Selection(files=[grid]))[0].cell
    assert run_in(store.root, Task(cell), stop=lambda: True).status == "interrupted"
    for command in (["plan", "--grid", grid], ["show", cell.short]):
        said = here(*command, "--results", store.root)
        assert "interrupted after round 1;" in said.out + said.err


def test_an_artefact_of_ones_own_has_a_report(here: Here, grid: Path) -> None:
    said = here("show", "tests/table1", "--grid", grid)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert f"repfl report --grid {grid}" in said.err


def test_a_published_value_is_shown_if_there_is_no_record(here: Here, tmp_path: Path) -> None:
    lines = committed_runs.read("fedpurin", "smoke").lines
    cell, record = next((line.cell, line.record) for line in lines if line.value is not None)
    said = here("show", cell[:16], "--results", tmp_path)
    assert said.code == 0
    value = f"{100 * record.metrics['value']:.2f} % at round"
    for part in (cell, "it came with the code", value, record.provenance["digests"]["state"]):
        assert part in said.out
    command = again(said)
    assert command[command.index("--cell") + 1] == cell[:12]
    assert json.loads(here("show", cell, "--results", tmp_path, "--json").out)["id"] == cell


def test_what_was_made_on_a_gpu_is_repeated_on_one(here: Here, tmp_path: Path) -> None:
    lines = committed_runs.read("fedobp", "paper").lines
    line = next(line for line in lines if line.record.provenance["device"].startswith("cuda"))
    command = again(here("show", line.cell, "--results", tmp_path))
    assert command[command.index("--device") + 1] == "cuda"
    assert command[command.index("--precision") + 1] == line.record.provenance["precision"]


def test_a_damaged_record_is_not_shown(here: Here, store: Store, compute: Compute) -> None:
    compute(task("local"))
    (cell,) = store.ids()
    (store.folder(cell) / "clients.parquet").write_bytes(b"")
    said = here("show", cell, "--results", store.root)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert "clients.parquet" in said.err


def test_two_grids_of_one_name_are_refused_and_a_grid_may_have_a_papers_name(
    here: Here, grid: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / grid.name
    twin.write_text(grid.read_text())
    said = here("plan", "--grid", grid, "--grid", twin, "--results", tmp_path / "r")
    assert (said.code, "two files have the same name" in said.err) == (2, True)
    own = tmp_path / "fedpurin.toml"
    own.write_text(grid.read_text())
    facts = json.loads(here("plan", "--grid", own, "--results", tmp_path / "r", "--json").out)
    assert facts["distinct"] == 8
