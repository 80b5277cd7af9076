"""A contribution is told line by line: what is new, what changed, what is gone, and what is not
taken, with why.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import UserError
from repfl.bench.evidence import changes, measured
from repfl.bench.evidence.changes import Change
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.line import Line
from repfl.bench.evidence.measured import Measured
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.task import Options, Task
from repfl.bench.run.work import run_task
from repfl.bench.store.store import Store
from tests.bench.conftest import ROOT, Said

PAPER = "fedobp"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three cells, two of them of one method and two seeds, computed and collected."""
    folder = tmp_path_factory.mktemp("changes")
    items = plan(Selection(artefacts=["fedobp/table3"], datasets=["digits"]))
    items = [
        item
        for item in items
        if item.column == "cifar10-dir0.1" and item.row in ("FedRep", "FedAvg")
    ][:3]
    store = Store(folder / "results")
    store.open()
    with pytest.MonkeyPatch.context() as patch:  # whatever the state of this clone
        committed = {"commit": "c" * 40, "dirty": False}
        patch.setattr("repfl.bench.store.provenance.commit", lambda: committed)
        for item in items:
            how = Options(str(store.root))
            assert run_task(Task(item.cell), how, lambda *_: None, lambda: False).status == "done"
    collect(items, store, folder, "founders")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def sides(original: Path) -> tuple[Measured, Measured]:
    """The lines before and after a contribution, which a test makes."""
    before, after = (measured.read(PAPER, "smoke", original) for _ in range(2))
    return before, after


def told(sides: tuple[Measured, Measured]) -> list[Change]:
    return list(changes.compare(*sides))


def abroad(line: Line, **provenance: Any) -> Line:
    """A line as a visitor's machine would have made it."""
    platform = {**line.record.provenance["platform"], "fingerprint": "f00d" * 4}
    digests = {**line.digests, "state": "e" * 64}
    made = {"platform": platform, "contributor": "visitor", "digests": digests, **provenance}
    return replace(line, record=replace(line.record, provenance=line.record.provenance | made))


def shifted(line: Line, by: float) -> Line:
    """A line whose value lies higher or lower."""
    said = json.loads(json.dumps(line.record.metrics))
    said["value"] += by
    return replace(line, record=replace(line.record, metrics=said))


def test_an_honest_line_and_a_removed_one_are_told_apart(sides: tuple[Measured, Measured]) -> None:
    after = sides[1]
    first, *_, last = after.lines
    after.forget(last)
    after.add(abroad(first))
    found = {change.kind: change for change in told(sides)}
    assert set(found) == {"new", "gone"}
    assert found["new"][-2:] == ("agrees with 1 other line of its cell", False)
    assert found["gone"][-2:] == ("was removed, though its cell is planned", True)


def test_nothing_is_said_where_nothing_changed(sides: tuple[Measured, Measured]) -> None:
    assert told(sides) == []


def of_another_cell(line: Line) -> Line:
    return replace(line, record=replace(line.record, id="0" * 64))


CASES: dict[str, tuple[Callable[[Line], Line], str]] = {
    "no counts": (lambda line: replace(abroad(line), counts=None), "no counts per client"),
    "dirty": (lambda line: abroad(line, dirty=True), "from a clone with changes"),
    "old engine": (
        lambda line: abroad(line, versions={**line.record.provenance["versions"], "engine": 0}),
        "made by engine 0 (today 1)",
    ),
    "another cell": (of_another_cell, "no grid plans this cell"),
    "too good": (lambda line: shifted(abroad(line), 0.2), "too good for the noise: 20.00 points"),
    "too bad": (lambda line: shifted(abroad(line), -0.2), "too bad for the noise: 20.00 points"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_new_line_that_proves_nothing_is_refused_with_its_reason(
    sides: tuple[Measured, Measured], case: str
) -> None:
    make, words = CASES[case]
    sides[1].add(make(sides[1].lines[0]))
    (change,) = told(sides)
    assert (change.kind, change.refused) == ("new", True)
    assert words in change.remark


def test_the_first_line_of_a_cell_is_compared_with_other_seeds(
    sides: tuple[Measured, Measured],
) -> None:
    before, after = sides
    pair = [each for each in after.lines if each.method == after.lines[0].method]
    pair = pair if len(pair) > 1 else [each for each in after.lines if each not in pair]
    before.forget(pair[0])
    after.add(shifted(pair[0], 0.3))
    (change,) = told(sides)
    assert change.refused
    assert "too good for the noise" in change.remark


def test_the_same_bits_under_another_name_are_pointed_at(sides: tuple[Measured, Measured]) -> None:
    before, after = sides
    one, other, *_ = after.lines
    before.forget(one)
    digests = {**one.digests, "state": other.digests["state"]}
    made = {**one.record.provenance, "digests": digests}
    after.add(replace(one, record=replace(one.record, provenance=made)))
    (change,) = told(sides)
    assert change.remark.startswith(f"look: the same bits as {other.method}")


def test_a_changed_number_is_refused_and_more_evidence_beside_the_same_is_taken(
    sides: tuple[Measured, Measured],
) -> None:
    before, after = sides
    (some, other, *_) = after.lines
    before.add(replace(some, counts=None))
    after.add(shifted(other, 0.1))
    more, number = sorted(told(sides), key=lambda change: change.refused)
    assert more[-2:] == ("the same numbers, with more beside them", False)
    assert number.refused
    assert "numbers of a finished cell do not change" in number.remark


def test_lines_here_are_compared_with_those_of_a_commit(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Callable[..., Said]
) -> None:
    shutil.copytree(original / PAPER, tmp_path / PAPER)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    (tmp_path / PAPER / "grid.toml").write_text(
        (ROOT / "paper_tables" / PAPER / "grid.toml").read_text()
    )
    assert changes.since("HEAD", tmp_path) == []
    known = measured.read(PAPER, "smoke", tmp_path)
    known.forget(known.lines[0])
    measured.write(known)
    text = known.file.read_text()
    known.file.write_text(text.replace('"rounds":', '"rounds": 1', 1))
    found = changes.since("HEAD", tmp_path)
    assert sorted(change.kind for change in found) == ["does not hold", "gone", "gone"]
    with pytest.raises(UserError, match="--against nowhere: no commit of this clone"):
        changes.since("nowhere", tmp_path)
    if (ROOT / ".git").exists():
        assert here("verify", "--against", "HEAD").code in (0, 1)
