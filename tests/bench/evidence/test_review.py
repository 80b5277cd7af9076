"""A contribution is told line by line: what is new, what changed, what is gone, and what is not
taken, with why.
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

from repfl.bench.evidence import measured
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.lines import Line, packed
from repfl.bench.evidence.review import Change, Review, review
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.task import Options, Task
from repfl.bench.run.work import run_task
from repfl.bench.store.store import Store
from tests.bench.conftest import ROOT, Said

PAPER = "fedobp"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three cells, two of them of one method and two seeds, computed and collected."""
    folder = tmp_path_factory.mktemp("review")
    items = plan(Selection(artefacts=["fedobp/table3"], datasets=["digits"]))
    items = [
        item
        for item in items
        if item.column == "cifar10-dir0.1" and item.row in ("FedRep", "FedAvg")
    ][:3]
    store = Store(folder / "results")
    store.open()
    with pytest.MonkeyPatch.context() as patch:  # whatever the state of this clone
        patch.setattr(
            "repfl.bench.store.provenance.commit", lambda: {"commit": "c" * 40, "dirty": False}
        )
        for item in items:
            done = run_task(
                Task(item.cell), Options(str(store.root)), lambda *_: None, lambda: False
            )
            assert done.status == "done"
    for name in ("old", "new"):
        collect(items, store, folder / name, "founders")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folders(original: Path, tmp_path: Path) -> tuple[Path, Path]:
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path / "old", tmp_path / "new"


Step = Callable[[measured.Measured, Line], None]


def contribute(root: Path, step: Step, number: int = 0) -> None:
    """Change the lines of a folder as `repfl collect` would write them."""
    known = measured.read(PAPER, "smoke", root)
    step(known, known.lines[number])
    measured.write(known)


def told(folders: tuple[Path, Path]) -> Review:
    return review(*map(str, folders))


def only(folders: tuple[Path, Path]) -> Change:
    (change,) = told(folders).changes
    return change


def abroad(line: Line, **provenance: Any) -> Line:
    """A line as a visitor's machine would have made it."""
    platform = {**line.record.provenance["platform"], "fingerprint": "f00d" * 4}
    digests = {**line.digests, "state": "e" * 64}
    made = {
        **line.record.provenance,
        "platform": platform,
        "contributor": "visitor",
        "digests": digests,
    }
    return replace(line, record=replace(line.record, provenance={**made, **provenance}))


def shifted(line: Line, by: float) -> Line:
    """A line whose curve, counts and summary lie higher or lower, in step with each other."""
    said = json.loads(json.dumps(line.record.metrics))
    said["value"] += by
    name, curve = next(iter(line.curves.items()))
    point = said["points"][name.split("/")[0]]
    point["last"]["pooled"] = point["max"]["pooled"] = said["value"]
    values = np.minimum(curve.values, said["value"])
    values[-1] = said["value"]
    moved = replace(line.record, metrics={**said, "round": int(curve.rounds[-1])})
    drawn = packed({name: curve._replace(values=values)})
    return replace(line, record=moved, counted="", drawn=drawn)


def test_an_honest_line_an_edited_one_and_a_removed_one_are_told_apart(
    folders: tuple[Path, Path], here: Callable[..., Said], tmp_path: Path
) -> None:
    contribute(folders[1], lambda known, line: known.forget(line), 2)
    contribute(folders[1], lambda known, line: known.add(abroad(line)))
    path = folders[1] / PAPER / "measured" / "smoke.csv"
    rows = path.read_text().splitlines(keepends=True)
    index = next(index for index, row in enumerate(rows) if ",43,done," in row)
    rows[index] = rows[index].replace('""up_values"": ', '""up_values"": 1')
    path.write_text("".join(rows))
    found = told(folders)
    kinds = {change.kind: (change.refused, change.remark) for change in found.changes}
    assert kinds["new"] == (False, "agrees with 1 other line of its cell")
    assert kinds["gone"] == (True, "was removed, though its cell is planned")
    assert kinds["does not hold"][0]
    assert sorted(change.kind for change in found.changes) == ["does not hold", "gone", "new"]
    said = here("review", folders[0], folders[1], "--markdown", tmp_path / "page.md")
    assert said.code == 1
    assert "| REFUSED: gone |" in (tmp_path / "page.md").read_text()
    assert "| taken: new |" in said.out


def test_nothing_is_said_where_nothing_changed(folders: tuple[Path, Path]) -> None:
    found = told(folders)
    assert (found.same, found.changes) == (3, [])


CASES: dict[str, tuple[Callable[[Line], Line], bool, str]] = {
    "too good": (lambda line: shifted(abroad(line), +0.2), True, "no counts per client"),
    "dirty": (lambda line: abroad(line, dirty=True), True, "from a clone with changes"),
    "old engine": (
        lambda line: abroad(line, versions={**line.record.provenance["versions"], "engine": 0}),
        True,
        "made by engine 0 (today 1)",
    ),
    "other cell": (
        lambda line: replace(line, record=replace(line.record, id="0" * 64)),
        True,
        "no grid plans this cell",
    ),
    "other method": (
        lambda line: replace(
            line, record=replace(line.record, id="0" * 64), axes={**line.axes, "method": "fedmagic"}
        ),
        True,
        "unknown method fedmagic",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_new_line_that_proves_nothing_is_refused_with_its_reason(
    folders: tuple[Path, Path], case: str
) -> None:
    make, refused, words = CASES[case]
    contribute(folders[1], lambda known, line: known.add(make(line)))
    change = only(folders)
    assert (change.kind, change.refused) == ("new", refused)
    assert words in change.remark


@pytest.mark.parametrize(("by", "side"), [(0.2, "good"), (-0.2, "bad")])
def test_a_line_beyond_the_noise_is_refused_to_either_side(
    folders: tuple[Path, Path], by: float, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repfl.bench.check.arithmetic.of_line", lambda *_: [])

    def step(known: measured.Measured, line: Line) -> None:
        known.add(replace(shifted(abroad(line), by), counted=line.counted))

    contribute(folders[1], step)
    change = only(folders)
    assert change.refused
    assert f"too {side} for the noise: 20.00 points from 1 other runs" in change.remark


def test_a_changed_number_is_refused_and_more_evidence_beside_the_same_is_taken(
    folders: tuple[Path, Path],
) -> None:
    contribute(folders[0], lambda known, line: known.add(replace(line, counted="")))
    change = only(folders)
    assert (change.kind, change.refused, change.remark) == (
        "changed",
        False,
        "the same numbers, with more beside them",
    )
    contribute(
        folders[1], lambda known, line: known.add(replace(shifted(line, 0.1), counted=line.counted))
    )
    assert told(folders).refused


def test_commits_are_compared_like_folders() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this copy is no clone, so it has no commits")
    found = review("HEAD", "HEAD")
    assert found.changes == []
    assert found.same > 800
