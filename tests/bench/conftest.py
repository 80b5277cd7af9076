"""A small grid of real cells, a store in a temporary folder, and methods that misbehave on
purpose.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.cli.main import call
from repfl.bench.errors import UserError
from repfl.bench.grid import plugins
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.grid.recipes import recipe_from
from repfl.bench.run.attempt import run_task
from repfl.bench.run.executors import processes
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from tests import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FAULTY = Path(__file__).with_name("faulty.py")

GRID = """
title = "A grid for tests"
year = 2026

[recipes.two]
label = "two clients"
dataset = "digits"
model = "tiny"
clients = 2
partition = { rule = "client-dirichlet", options = { alpha = 0.5, train = 20, test = 10 } }
training = { rounds = 2, epochs = 1, batch = 10, lr = 0.1 }

[recipes.three]
inherit = "two"
label = "three [/] <i>$ a|b"
clients = 3

[scales.smoke]
seeds = [0, 1]

[artefacts.table1]
kind = "table"
title = "Table 1"
[[artefacts.table1.cells]]
rows = [{ label = "Local", method = "local" }, { label = "FedAvg", method = "fedavg" }]
recipes = ["two", "three"]

[artefacts.fig1]
kind = "figure"
title = "Figure 1"
[[artefacts.fig1.cells]]
rows = [{ label = "FedAvg", method = "fedavg" }]
recipes = ["two"]
"""

COMMITTED = {"commit": "c" * 40, "dirty": False}
RECIPE: dict[str, Any] = {
    "dataset": "digits",
    "model": "tiny",
    "clients": 2,
    "partition": {"rule": "client-dirichlet", "options": {"alpha": 0.5, "train": 20, "test": 10}},
    "training": {"rounds": 3, "epochs": 1, "batch": 10, "lr": 0.1, "momentum": 0.9},
}


def recipe(**changes: Any) -> Any:
    """The small recipe, with changes to its fields or to `training`."""
    training = {**RECIPE["training"], **changes.pop("training", {})}
    return recipe_from({**RECIPE, "training": training, **changes}, "test recipe")


def task(
    method: str = "fedavg", seed: int = 0, hp: dict[str, Any] | None = None, **changes: Any
) -> Task:
    """A task of the small recipe."""
    return Task(build_cell(method, hp or {}, recipe(**changes), seed), "repfl run --cell test")


def refusal(call: Callable[[], object]) -> str:
    """The one line with which wrong input is refused."""
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def says(line: str, words: str) -> None:
    """Fail unless a line has all words, which are separated by ` | `."""
    assert [word for word in words.split(" | ") if word not in line] == [], line


Planning = Callable[..., list[Planned]]


@pytest.fixture
def planned(tmp_path: Path) -> Planning:
    """Plans a grid file with a text, one of its artefacts or all."""

    def write(text: str = GRID, artefact: str = "", **selection: Any) -> list[Planned]:
        path = tmp_path / "tests.toml"
        path.write_text(text)
        artefacts = [f"tests/{artefact}"] if artefact else []
        return plan(Selection(**{"files": [path], "artefacts": artefacts, **selection}))

    return write


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """A grid file of eight planned cells, two of them twice."""
    path = tmp_path / "tests.toml"
    path.write_text(GRID)
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of that grid, as they were committed at a known state of the code."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tests.toml").write_text(GRID)
    where = ["--grid", str(folder / "tests.toml"), "--results", str(folder / "r")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("repfl.bench.store.provenance.commit", lambda: COMMITTED)
        assert call(["run", *where, "--executor", "inline"]) == 0
    return folder / "r"


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    """A copy of them, in which a test may write what it likes."""
    shutil.copytree(finished, tmp_path / "r")
    return tmp_path / "r"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "results")
    found.open()
    return found


def run_in(
    root: Path, wanted: Task, stop: Callable[[], bool] = lambda: False, **options: Any
) -> Outcome:
    """Run a task into the store of a folder, in this process."""
    return run_task(wanted, Options(str(root), **options), lambda *_: None, stop)


@pytest.fixture
def compute(store: Store) -> Callable[..., Outcome]:
    """The same into the store of the test."""
    return partial(run_in, store.root)


def stored(store: Store, cell: str) -> Record:
    """Return a record that has to be there."""
    record = store.get(cell)
    assert record is not None
    return record


def digests(root: Path) -> dict[str, dict[str, str]]:
    """Return the digests of all records of a folder, each of them whole and done."""
    store, found = Store(root), {}
    for cell in store.ids():
        record = stored(store, cell)
        store.verify(record)
        assert record.status == "done", record.reason
        found[cell] = record.origin.digests
    return found


def rewrite(store: Store, record: Record) -> None:
    """Write a record as its store would, its files as they are."""
    siblings = {name: (store.folder(record.id) / name).read_bytes() for name in record.files}
    store.put(record, siblings)


def changed(store: Store, cell: str, **changes: object) -> Record:
    """Store another version of a record; return it."""
    record = replace(stored(store, cell), **changes)  # type: ignore[arg-type]
    rewrite(store, record)
    return record


@pytest.fixture
def faulty() -> Path:
    """Methods that raise, diverge, stall or die."""
    plugins.load([str(FAULTY)])
    return FAULTY


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are copies of this process, which take no seconds to import everything again."""
    monkeypatch.setattr(processes, "CONTEXT", multiprocessing.get_context("fork"))


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


Here = Callable[..., Said]
Compute = Callable[..., Outcome]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """The command, in this process."""

    def run(*arguments: str | Path) -> Said:
        code = call([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Said(code, captured.out, captured.err)

    return run


def copy_code(to: Path, *folders: str) -> None:
    """A copy of some of this clone's folders, in which `repfl` is the copy."""
    dirt = shutil.ignore_patterns("__pycache__")
    for folder in ("repfl", *folders):
        shutil.copytree(ROOT / folder, to / folder, symlinks=True, ignore=dirt)


def environment(**changes: str) -> dict[str, str]:
    """A process's surroundings with this clone in reach."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def python(code: str, *arguments: str) -> str:
    """Return what a process of its own prints."""
    command, where = [sys.executable, "-c", code, *arguments], environment()
    return subprocess.run(command, capture_output=True, text=True, check=True, env=where).stdout


def repfl(
    *arguments: str | Path, cwd: Path = ROOT, umask: int = -1, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "repfl", *map(str, arguments)]
    where: dict[str, Any] = {"env": environment(**variables), "cwd": cwd, "umask": umask}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, **where
    )
