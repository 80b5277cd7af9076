"""Published results: what tables and figures read of a store travels with the code and stands in
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repfl.algorithms.core import ENGINE
from repfl.bench.errors import Corrupt
from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.evidence.committed.committed_run import Counts, Curve, Line
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.report import numbers
from repfl.bench.report.formats.markdown import markdown
from repfl.bench.report.sheet import sheet_of
from repfl.bench.run.task import Task
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from repfl.paper_tables.core import result
from repfl.paper_tables.core.result import Absent, Result, Table
from tests.bench import invented
from tests.bench.conftest import COMMITTED, changed, run_in, stored

Small = tuple[list[Planned], Store, Path]


def planned(grid: Path) -> list[Planned]:
    return plan(Selection(files=[grid], papers=["tests"]))


@pytest.fixture
def small(grid: Path, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """A grid with eight finished cells, and a folder to collect into."""
    monkeypatch.setattr("repfl.bench.store.provenance.commit", lambda: COMMITTED)
    return planned(grid), Store(results), tmp_path / "papers"


def lines_of(root: Path) -> list[Line]:
    found = committed_runs.read("tests", "smoke", root)
    assert found.problems == []
    return found.lines


def forms(results: list[Result]) -> dict[str, Any]:
    """Everything that an artefact says."""
    texts = {}
    for r in results:
        assert not isinstance(r, Absent), r.caption
        if isinstance(r, Table):  # a line is marked, a record is not
            r = replace(r, frame=r.frame.assign(tier=""))
        page = markdown(sheet_of(r, {})) if isinstance(r, Table) else ""
        values = numbers.as_csv(result.frame_of(r))
        # from Python 3.13 on two claims with the same NaN are not equal
        texts[r.key] = (values, page, r.caption, r.notes, repr(r.claims))  # type: ignore[arg-type]
    return texts


def test_a_line_comes_back_from_its_file(small: Small) -> None:
    """Values, curves, counts and arrays of every type and shape."""
    items, store, root = small
    collect(items, store, root)
    known = committed_runs.read("tests", "smoke", root)
    (line, *_) = known.lines
    arrays = {
        "share": np.array(0.1 + 0.2),
        "names": np.array(["a", "bcd"]),
        "counts": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "few": np.float32([1 / 3, np.nan, np.inf]),
        "none": np.zeros((0, 4), bool),
    }
    extra = Curve(np.arange(3), np.array([1e-300, np.nan, 1 / 3]))
    rich = replace(line, arrays={"reduced": arrays}, curves={**line.curves, "extra": extra})
    known.add(rich)
    committed_runs.write(known)
    (back,) = (each for each in lines_of(root) if each.key == rich.key)
    assert back.record == replace(rich.record, files={}, provenance=back.record.provenance)
    assert back.json["provenance"] == rich.json["provenance"]
    for name, array in arrays.items():
        kept = back.arrays["reduced"][name]
        assert (kept.dtype, kept.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(kept, array)
    for name, curve in rich.curves.items():
        assert all(map(lambda a, b: a.tobytes() == b.tobytes(), back.curves[name], curve))
    assert isinstance(back.counts, Counts)
    assert all(map(np.array_equal, back.counts, rich.counts or ()))
    before = known.file.read_bytes()
    committed_runs.write(committed_runs.read("tests", "smoke", root))
    assert known.file.read_bytes() == before


def test_the_lines_that_came_with_the_code_are_written_as_they_were_read(tmp_path: Path) -> None:
    """So that a commit of new lines shows those alone."""
    files = sorted(Path("paper_tables").resolve().glob("*/measured/*.jsonl"))
    assert len(files) > 5
    for path in files:
        runs = committed_runs.read(path.parent.parent.name, path.stem)
        copy = replace(runs, file=tmp_path / path.name)
        assert committed_runs.write(copy).read_bytes() == path.read_bytes(), path


def test_collecting_says_what_is_added_and_what_is_kept(small: Small, tmp_path: Path) -> None:
    items, store, root = small
    file = root / "tests" / "measured" / "smoke.jsonl"
    some = [item for item in items if item.cell.id == items[0].cell.id]
    assert collect(some, store, root).files == [(file, 1, 0)]
    assert collect(items, store, root).files == [(file, 7, 1)]
    before = file.read_bytes()
    assert collect(items[::-1], store, root).files == [(file, 0, 8)]
    collect(items, Store(tmp_path / "empty"), root)
    assert file.read_bytes() == before
    # of curves those are kept that values come from or artefacts read
    lines = lines_of(root)
    assert {name for line in lines for name in line.curves} == {"post_agg/mean"}
    for line in lines:
        rounds, values = line.curves["post_agg/mean"]
        assert values[rounds.tolist().index(line.record.round)] == line.value
        assert line.counts is not None
        assert (line.counts.correct / line.counts.total).mean() == pytest.approx(line.value)


def test_a_run_that_diverged_can_be_collected_again(grid: Path, small: Small) -> None:
    _, store, root = small
    grid.write_text(grid.read_text().replace("lr = 0.1", "lr = 1e30"))
    items = planned(grid)
    assert run_in(store.root, Task(items[0].cell)).status == "diverged"
    first, again = (collect(items, store, root) for _ in range(2))
    (file, *_), *_ = first.files
    assert (first.files, again.files) == ([(file, 1, 0)], [(file, 0, 1)])
    assert again.conflicts == []


def test_independent_runs_of_a_cell_stand_side_by_side(small: Small) -> None:
    items, store, root = small
    collect(items[:1], store, root, "founders")
    collect(items[:1], store, root, "visitor")
    assert [line.contributor for line in lines_of(root)] == ["founders", "visitor"]
    assert len(committed_runs.read("tests", "smoke", root).cells) == 1


def test_a_run_that_contradicts_a_line_of_the_same_versions_is_not_taken(small: Small) -> None:
    items, store, root = small
    collect(items[:1], store, root)
    known = committed_runs.read("tests", "smoke", root)
    (before,) = known.lines
    said = before.record.origin.changed(digests={**before.digests, "state": "f" * 64})
    known.add(replace(before, record=replace(before.record, provenance=said)))
    committed_runs.write(known)
    (conflict,) = collect(items, store, root).conflicts
    assert "came out otherwise from the same versions" in conflict
    (kept,) = (line for line in lines_of(root) if line.cell == before.cell)
    assert kept.digests["state"] == "f" * 64


def test_a_run_of_changed_code_takes_no_place_of_one_of_committed_code(small: Small) -> None:
    items, store, root = small
    collect(items[:1], store, root)
    known = committed_runs.read("tests", "smoke", root)
    (before,) = known.lines
    mine = stored(store, items[0].cell.id)
    changed(store, mine.id, provenance=mine.origin.changed(dirty=True))
    other = {**before.digests, "state": "f" * 64}
    said = before.record.origin.changed(digests=other, dirty=False)
    known.add(replace(before, record=replace(before.record, provenance=said)))
    committed_runs.write(known)
    (conflict,) = collect(items[:1], store, root).conflicts
    assert "came out otherwise from a clone with changes" in conflict
    (kept,) = lines_of(root)
    assert kept.digests == other


@pytest.mark.parametrize(("fresh", "left"), [(False, True), (True, False)])
def test_lines_of_an_older_version_go_once_the_method_is_collected_again(
    small: Small, tmp_path: Path, fresh: bool, left: bool
) -> None:
    items, store, root = small
    collect(items, store, root)
    known = committed_runs.read("tests", "smoke", root)
    (line, *_) = known.lines
    older = replace(next(i.cell for i in items if i.cell.id == line.cell), version=0)
    aged = replace(line, record=replace(line.record, id=older.id, cell=older.json))
    known.add(aged)
    committed_runs.write(known)
    collect(items, store if fresh else Store(tmp_path / "empty"), root)
    assert (aged.key in {each.key for each in lines_of(root)}) == left
    assert line.key in {each.key for each in lines_of(root)}


def committed(platform: str, finished: str, engine: int = ENGINE) -> Line:
    """An invented line."""
    recipe = {"dataset": "digits", "model": "tiny", "partition": {"rule": "iid"}}
    cell = {"method": "fedavg", "version": 1, "hp": {}, "recipe": recipe, "seed": 1}
    made = invented.origin(
        platform={"device": "some", "torch": "2.0", "fingerprint": platform},
        contributor="somebody",
        finished=finished,
        versions={"engine": engine, "method": 1, "dataset": 1, "rule": 1},
        digests={"state": platform},
    )
    return Line(Record("cell 1", cell, "done", "", invented.VALUE, made), "x")


def test_a_current_line_is_shown_before_a_stale_one_and_the_earliest_of_these() -> None:
    stale, known = committed("a", "2020", engine=0), CommittedRuns()
    assert known.line("cell 1") is None
    known.add(stale)
    assert known.line("cell 1") is stale
    late, early = committed("b", "2026-2"), committed("c", "2026-1")
    known.add(late)
    known.add(early)
    assert known.line("cell 1") is early


BROKEN: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "cut short": (lambda lines: [*lines[:2], lines[2][:-9]], "smoke.jsonl:3: "),
    "no text": (lambda lines: [lines[0][:-9] + b"\xff\n", *lines[1:]], "smoke.jsonl:1: 'utf-8'"),
    "edited": (
        lambda lines: [*lines[:2], lines[2].replace(b'"done"', b'"gone"')],
        "smoke.jsonl:3: not as it was collected",
    ),
    "a conflict of git": (lambda lines: [b"<<<<<<< HEAD\n", *lines], "smoke.jsonl:1: "),
    "twice": (lambda lines: [*lines, lines[0]], "stands twice for platform"),
    "nested without end": (lambda lines: [*lines, b"[" * 100_000], "smoke.jsonl:9: "),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_line_is_named_and_the_others_are_used(
    small: Small, tmp_path: Path, fault: str
) -> None:
    items, store, root = small
    collect(items, store, root)
    change, words = BROKEN[fault]
    path = root / "tests" / "measured" / "smoke.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    made = make(items, Records(Store(tmp_path / "empty")), root)
    (problem,) = made.problems
    assert words in problem
    assert len(made.committed) >= 2
    before = path.read_bytes()
    with pytest.raises(Corrupt, match="or its other lines would be lost"):
        collect(items, store, root)
    assert path.read_bytes() == before


# -- the real papers -------------------------------------------------------------------------------

READERS = (
    *("fedobp/fig6", "fedpurin/table3", "fedpurin/fig5", "fedpurin/fig6"),
    *("fedselect/fig4", "star-pfl/fig1"),
)
"""Artefacts that read notes, bytes by round, masks and traces."""


def test_collected_values_stand_in_for_records(tmp_path: Path) -> None:
    """One cell of each of these artefacts at the smoke scale, computed and collected."""
    store, items, root = Store(tmp_path / "r"), plan(Selection(artefacts=READERS)), tmp_path / "p"
    store.open()
    first = {item.key: item.cell for item in reversed(items)}
    for cell in {cell.id: cell for cell in first.values()}.values():
        assert run_in(store.root, Task(cell)).status == "done"
    with_records = make(items, Records(store), root)
    collect(items, store, root)
    without = make(items, Records(Store(tmp_path / "empty")), root)
    assert [r.key for r in without.results] == list(READERS)
    assert with_records.committed == set()
    assert without.committed == set(without.used) == set(with_records.used)
    assert len(without.committed) >= 5
    assert without.problems == []
    assert forms(without.results) == forms(with_records.results)
    assert sum(path.stat().st_size for path in root.rglob("*.*")) < 300_000
