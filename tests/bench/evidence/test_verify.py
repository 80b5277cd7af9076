"""A number that somebody wrote does not pass for one that somebody computed: its checksum does not
match, and if that was computed again, the number does not come out again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.committed import committed_runs, noise
from repfl.bench.evidence.committed.committed_run import Curve, Line
from repfl.bench.evidence.committed.verify import of_committed, of_store
from repfl.bench.grid import grid as grids
from repfl.bench.grid.cell import from_json
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.run.task import Task
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from repfl.datasets.core import registry as datasets
from repfl.datasets.core.cache import prepared_path
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.files.custom import from_npz
from repfl.paper_tables.core.statistics import noise as model
from repfl.paper_tables.core.statistics.intervals import Variance
from repfl.paper_tables.core.statistics.verdict import Runs, compare
from tests.bench.conftest import Compute, rewrite, run_in, stored, task

PAPER = "fedobp"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Planned], Path]]:
    """Two cells of one table, FedOBP and FedAvg, computed and collected."""
    folder = tmp_path_factory.mktemp("edits")
    items = plan(Selection(artefacts=["fedobp/table3"], seeds=[42], datasets=["digits"]))
    items = [
        item
        for item in items
        if item.column == "cifar10-dir0.1" and item.row in ("FedOBP", "FedAvg")
    ]
    store = Store(folder / "results")
    store.open()
    for item in items:
        assert run_in(store.root, Task(item.cell)).status == "done"
    collect(items, store, folder / "papers", "founders")
    yield items, folder
    shutil.rmtree(folder)


@pytest.fixture
def copy(original: tuple[list[Planned], Path], tmp_path: Path) -> Path:
    """A folder in which a test may write what it likes."""
    shutil.copytree(original[1], tmp_path, dirs_exist_ok=True)
    return tmp_path


# -- the edits, on what a line or a record says ----------------------------------------------------


def edited(record: Record, change: Change) -> Record:
    """A record after an edit of its metrics or provenance."""
    values = record.json
    change(values)
    return Record.from_json(values)


def forge(root: Path, change: Callable[[Line], Line]) -> None:
    """Put a changed line in the place of FedOBP's, whose bytes have no closed form, with its
    checksum computed again.
    """
    known = committed_runs.read(PAPER, "smoke", root)
    line = next(line for line in known.lines if line.method == "fedobp")
    known.remove(line)
    known.add(change(line))
    committed_runs.write(known)


def test_an_edited_line_is_one_finding_at_once(copy: Path) -> None:
    path = copy / "papers" / PAPER / "measured" / "smoke.jsonl"
    first, *others = path.read_text().splitlines()
    for field in ("id", "cell", "metrics", "curves", "counts", "provenance"):
        values = json.loads(first)
        values |= {"id": "0" * 64} if field == "id" else {field: {**values[field], "extra": 1}}
        path.write_text("\n".join([json.dumps(values), *others]) + "\n")
        result = of_committed([PAPER], root=copy / "papers")
        told = f"{path}:1: not as it was collected: its checksum does not match; not used"
        assert (result.findings, result.records) == ([told], 1)


def raised(line: Line) -> Line:
    curves = {name: Curve(c.rounds, c.values + 0.1) for name, c in line.curves.items()}
    return replace(line, curves=curves)


def recounted(line: Line) -> Line:
    assert line.counts is not None
    return replace(line, counts=line.counts._replace(correct=line.counts.correct + 1))


def valued(line: Line) -> Line:
    return replace(line, record=edited(line.record, lambda said: said["metrics"].update(value=0.9)))


@pytest.mark.parametrize(
    ("change", "name"), [(raised, "curve post_agg"), (recounted, "counts"), (valued, "")]
)
def test_a_line_with_a_forged_checksum_does_not_come_out_again(
    copy: Path, change: Callable[[Line], Line], name: str
) -> None:
    forge(copy / "papers", change)
    (finding,) = of_committed([PAPER], rerun=2, root=copy / "papers").findings
    assert f"does not come out again: {name}" in finding


FORGERIES: dict[str, Change] = {
    "less traffic": lambda said: said["metrics"]["traffic"].update(up_values=4),
    "another partition": lambda said: said["provenance"].update(partition="2" * 64),
    "another digest": lambda said: said["provenance"]["digests"].update(state="1" * 64),
}


@pytest.mark.parametrize("edit", FORGERIES)
def test_a_record_with_a_forged_checksum_does_not_come_out_again(copy: Path, edit: str) -> None:
    store = Store(copy / "results")
    records = [stored(store, cell) for cell in store.ids()]
    record = next(each for each in records if each.cell["method"] == "fedobp")
    rewrite(store, edited(record, FORGERIES[edit]))
    (finding,) = of_store(store, rerun=2).findings
    assert "does not come out again" in finding


@pytest.mark.parametrize(("points", "finding"), [(4.0, False), (5.0, True)])
def test_a_run_of_another_platform_may_differ_by_the_noise_of_two_runs(
    copy: Path, monkeypatch: pytest.MonkeyPatch, points: float, finding: bool
) -> None:
    """By this noise two runs lie up to 4.33 points apart: a deviation of 1.5 that is worth 30
    degrees of freedom.
    """
    known = Variance(1.5**2, 30)
    two = Runs(50.0, count=1)
    assert compare(two, two, known).high == pytest.approx(4.33, abs=0.01)
    monkeypatch.setattr(noise, "of_line", lambda *_: known)

    def moved(line: Line) -> Line:
        def move(said: dict[str, Any]) -> None:
            said["provenance"]["platform"]["fingerprint"] = "elsewhere"
            said["metrics"]["value"] -= points / 100

        return replace(line, record=edited(line.record, move))

    forge(copy / "papers", moved)
    result = of_committed([PAPER], rerun=2, root=copy / "papers")
    texts = result.findings if finding else result.notes
    (message,) = (text for text in texts if "made on another platform" in text)
    assert ("further off than its noise" in message) == finding


def test_the_noise_of_a_line_is_that_of_its_scale_and_kind_of_partition() -> None:
    known = committed_runs.read("fedobp", "paper")
    line = next(each for each in known.lines if each.value is not None)
    assert noise.of_line(line, known) == noise.fitted()[model.pool("paper", one_partition=True)]


def test_every_committed_line_holds() -> None:
    found = of_committed([])
    assert found.findings == []
    files = grids.ROOT.glob("*/measured/*.jsonl")
    assert found.records == sum(len(path.read_bytes().splitlines()) for path in files)


def test_lines_of_cells_that_no_grid_plans_are_noted(copy: Path) -> None:
    def other(line: Line) -> Line:
        cell = replace(from_json(line.record.cell), version=0)
        return replace(line, record=replace(line.record, id=cell.id, cell=cell.json))

    forge(copy / "papers", other)
    found = of_committed([PAPER], root=copy / "papers")
    assert found.findings == []
    assert "1 cells are of no grid any more" in found.notes[0]


# -- a store ---------------------------------------------------------------------------------------


def test_data_that_are_no_longer_what_was_prepared_are_a_finding(
    store: Store, compute: Compute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path))
    datasets.get("digits")  # loads them all
    monkeypatch.setattr(datasets, "_REGISTRY", dict(datasets._REGISTRY))
    datasets.register(from_npz("own", tmp_path / "own.npz", classes="ab", shape=(3,)))
    train = {"train_features": np.zeros((60, 3), np.float32), "train_labels": np.arange(60) % 2}
    both = train | {name.replace("train", "test"): array for name, array in train.items()}
    np.savez(tmp_path / "own.npz", **both)
    prepare.download("own")
    wanted = task(dataset="own", model="mlp", clients=2, partition={"rule": "iid"})
    assert compute(wanted).status == "done"
    assert of_store(store).findings == []
    with prepared_path("own").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x3f")
    (finding,) = of_store(store).findings
    assert finding.startswith("own: split test does not match its fingerprint")


def test_what_needs_a_gpu_or_data_that_are_not_here_is_not_computed_again(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise DataError(f"{name} is not prepared")

    compute(task())
    with monkeypatch.context() as patch:
        patch.setattr("repfl.datasets.core.cache.open_dataset", absent)
        found = of_store(store, rerun=1)
        assert (found.findings, found.rerun) == ([], 0)
        assert "1 record needs the data of digits, not here" in found.notes[0]
    monkeypatch.setattr("repfl.bench.run.machine.gpus", lambda: 0)
    record = stored(store, task().cell.id)
    rewrite(store, replace(record, provenance=record.origin.changed(device="cuda:3")))
    found = of_store(store, rerun=1)
    assert (found.findings, found.rerun) == ([], 0)
    assert "1 record needs a GPU, not here" in found.notes[0]
