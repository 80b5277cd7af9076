"""A number that somebody wrote does not pass for one that somebody computed.

Every kind of edit is planted twice, by somebody who also computes the checksums again: in published
lines, and in the store. Arithmetic finds what it can tell; the rest does not come out again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.committed import committed_runs, consistency
from repfl.bench.evidence.committed.committed_run import Curve, Line
from repfl.bench.evidence.committed.verify import Verification, of_published, of_store
from repfl.bench.grid.cell import from_json
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.run.task import Task
from repfl.bench.store.store import Record, Store
from repfl.datasets.core import registry as datasets
from repfl.datasets.core.cache import prepared_path
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.files.custom import from_npz
from tests.bench.conftest import Compute, rewrite, run_in, stored, task

PAPER, POINTS = "fedobp", 0.1
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


def everywhere(metrics: dict[str, Any], by: float) -> None:
    """Move every accuracy of a summary."""
    metrics["value"] += by
    for point in metrics["points"].values():
        for rule in ("last", "max"):
            point[rule] |= {
                name: value + by
                for name, value in point[rule].items()
                if name in ("mean", "pooled")
            }


def swapped(metrics: dict[str, Any]) -> None:
    points = metrics["points"]
    one, other = points
    points[one], points[other] = points[other], points[one]


EDITS: dict[str, Change] = {
    "ten points more, everywhere": lambda said: everywhere(said["metrics"], POINTS),
    "another value": lambda said: said["metrics"].update(value=0.9),
    "7.5 as an accuracy": lambda said: said["metrics"].update(value=7.5),
    "another round": lambda said: said["metrics"].update(round=1),
    "less traffic": lambda said: said["metrics"]["traffic"].update(up_values=4),
    "another floor": lambda said: said["metrics"]["floor"].update(clients=0.1, pooled=0.1),
    "a smaller model": lambda said: said["metrics"].update(parameters=12),
    "the summaries of two points swapped": lambda said: swapped(said["metrics"]),
    "a zeroed digest": lambda said: said["provenance"]["digests"].update(state="0" * 64),
    "another digest": lambda said: said["provenance"]["digests"].update(state="1" * 64),
    "another partition": lambda said: said["provenance"].update(partition="2" * 64),
    "no partition": lambda said: said["provenance"].pop("partition"),
    "other samples": lambda said: said["provenance"].update(samples=3),
}
"""Edits of metrics and provenance, which lines and records share."""
BY_RERUN = {"another digest"}
"""What nothing but computing the cell again can tell of a line."""
BY_RERUN_IN_LINES = BY_RERUN | {"less traffic"}


def edited(record: Record, change: Change) -> Record:
    """A record after an edit."""
    said = deepcopy({"metrics": record.metrics, "provenance": record.provenance})
    change(said)
    return replace(record, **said)


def forge(root: Path, change: Callable[[Line], Line]) -> None:
    """Put a changed line in the place of FedOBP's, whose bytes have no closed form, with its
    checksum computed again.
    """
    known = committed_runs.read(PAPER, "smoke", root)
    line = next(line for line in known.lines if line.method == "fedobp")
    known.remove(line)
    known.add(change(line))
    committed_runs.write(known)


def said_of(found: Verification) -> str:
    return " | ".join(found.findings)


@pytest.mark.parametrize("edit", EDITS)
def test_a_forged_line_is_found_by_arithmetic_or_by_computing_it_again(
    copy: Path, edit: str
) -> None:
    root = copy / "papers"
    forge(root, lambda line: replace(line, record=edited(line.record, EDITS[edit])))
    told = of_published([PAPER], root=root)
    assert bool(told.findings) == (edit not in BY_RERUN_IN_LINES), said_of(told)
    if not told.findings:
        assert "does not come out again" in said_of(of_published([PAPER], rerun=2, root=root))


def victim(copy: Path) -> tuple[Store, Record]:
    """FedOBP's record and its store."""
    store = Store(copy / "results")
    records = [stored(store, cell) for cell in store.ids()]
    return store, next(each for each in records if each.cell["method"] == "fedobp")


@pytest.mark.parametrize("edit", EDITS)
def test_a_forged_record_is_found_by_arithmetic_or_by_computing_it_again(
    copy: Path, edit: str
) -> None:
    store, record = victim(copy)
    rewrite(store, edited(record, EDITS[edit]))
    told = of_store(store)
    assert bool(told.findings) == (edit not in BY_RERUN), said_of(told)
    if not told.findings:
        assert "does not come out again" in said_of(of_store(store, rerun=2))


# -- edits of curves and counts --------------------------------------------------------------------


def lifted(line: Line) -> Line:
    """One sample more in the counts, and the curve and the summary in step with them."""
    name, counts = next(iter(line.curves)), line.counts
    assert counts is not None
    correct = counts.correct.copy()
    correct[(correct < counts.total).argmax()] += 1
    right = consistency.accuracies(correct, counts.total)
    curve = line.curves[name]
    values = curve.values.copy()
    values[-1] = right["pooled"]

    def change(said: dict[str, Any]) -> None:
        point = said["metrics"]["points"][name.split("/")[0]]
        point["last"] |= right
        point["max"]["pooled"] = float(values.max())
        said["metrics"]["value"] = right["pooled"]

    curves = {name: Curve(curve.rounds, values)}
    own = replace(line, record=edited(line.record, change), curves=curves)
    return replace(own, counts=counts._replace(correct=correct))


def raised(line: Line) -> Line:
    curves = {n: Curve(c.rounds, c.values + POINTS) for n, c in line.curves.items()}
    return replace(line, curves=curves)


def recounted(line: Line) -> Line:
    return replace(
        line, counts=line.counts and line.counts._replace(correct=line.counts.correct + 1)
    )


@pytest.mark.parametrize(
    ("change", "words", "rerun"),
    [
        (raised, "is not that of its curve", 0),
        (recounted, "is not that of its counts", 0),
        (lambda line: replace(line, curves={}), "the curve that its value is from is missing", 0),
        (lifted, "does not come out again", 2),
    ],
    ids=["an edited curve", "edited counts", "no curve", "curve, counts and summary in step"],
)
def test_forged_curves_and_counts_are_found(
    copy: Path, change: Callable[[Line], Line], words: str, rerun: int
) -> None:
    forge(copy / "papers", change)
    found = of_published([PAPER], rerun=rerun, root=copy / "papers")
    assert any(words in finding for finding in found.findings), said_of(found)


def test_forged_curves_of_a_record_are_found(copy: Path) -> None:
    store, record = victim(copy)
    frame = pd.read_parquet(store.folder(record.id) / "rounds.parquet")
    frame.loc[frame["name"] == "post_agg/pooled", "value"] += POINTS
    frame.to_parquet(store.folder(record.id) / "rounds.parquet")
    rewrite(store, record)
    assert "digests.curves is not that of its curves" in said_of(of_store(store))


def test_a_report_refuses_a_line_that_does_not_hold_and_shows_the_others(
    copy: Path, original: tuple[list[Planned], Path]
) -> None:
    from repfl.bench.evidence.artefacts import make
    from repfl.bench.evidence.library import Library

    change = EDITS["another value"]
    forge(copy / "papers", lambda line: replace(line, record=edited(line.record, change)))
    made = make(original[0], Library(Store(copy / "none")), copy / "papers")
    assert len(made.problems) == 1
    assert "value is not that of its curve; not used" in made.problems[0]
    assert len(made.measured) == 1


def test_every_committed_line_holds() -> None:
    found = of_published([])
    assert found.findings == []
    assert found.records > 2200


def test_lines_of_cells_that_no_grid_plans_are_noted(copy: Path) -> None:
    def other(line: Line) -> Line:
        cell = replace(from_json(line.record.cell), version=0)
        return replace(line, record=replace(line.record, id=cell.id, cell=cell.json))

    forge(copy / "papers", other)
    found = of_published([PAPER], root=copy / "papers")
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


def test_what_was_made_on_a_gpu_is_not_computed_again_without_one(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repfl.bench.run.machine.gpus", lambda: 0)
    compute(task())
    record = stored(store, task().cell.id)
    rewrite(store, replace(record, provenance={**record.provenance, "device": "cuda:3"}))
    found = of_store(store, rerun=1)
    assert found.findings == []
    assert found.notes == ["1 record needs a GPU, not here; not computed again"]
    assert found.rerun == 0


def test_what_needs_absent_data_is_not_computed_again(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(task())

    def absent(name: str) -> None:
        raise DataError(f"{name} is not prepared")

    monkeypatch.setattr("repfl.datasets.core.cache.open_dataset", absent)
    found = of_store(store, rerun=1)
    assert (found.findings, found.rerun) == ([], 0)
    assert found.notes == ["1 record needs the data of digits, not here; not computed again"]


def test_lines_of_a_cell_that_the_noise_does_not_explain_are_a_finding(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = committed_runs.read(PAPER, "smoke", copy / "papers")
    line = known.lines[0]
    digests = {**line.digests, "state": "e" * 64}
    made = {**line.record.provenance, "contributor": "visitor", "digests": digests}
    known.add(replace(line, record=replace(line.record, provenance=made)))
    committed_runs.write(known)
    assert of_published([PAPER], root=copy / "papers").findings == []
    monkeypatch.setattr("repfl.bench.evidence.committed.agreement.agree", lambda *_: False)
    (finding,) = of_published([PAPER], root=copy / "papers").findings
    assert "the lines of founders and visitor are 0.00 points apart" in finding
