"""Measured values: what artefacts read of a store travels with the code, stands in for it, and can
be computed again.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.evidence import measured, packing, recheck, tiers
from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.library import Library
from repfl.bench.evidence.tiers import Tier
from repfl.bench.grid.plan import Planned, Selection, plan
from repfl.bench.report import render
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.run.work import run_task
from repfl.bench.store.digest import of_file
from repfl.bench.store.store import Store
from repfl.paper_tables.core.result import Absent, Result, Table

Compute = Callable[..., Outcome]


def planned(grid: Path) -> list[Planned]:
    return plan(Selection(files=[grid], papers=["tests"]))


@pytest.fixture
def small(
    grid: Path, compute: Compute, store: Store, tmp_path: Path
) -> tuple[list[Planned], Store, Path]:
    """A grid with three finished cells of four seeds and recipes, collected."""
    items = planned(grid)
    for item in (items[0], items[2], next(item for item in items if item.kind == "figure")):
        compute(Task(item.cell))
    return items, store, tmp_path / "papers"


def forms(results: list[Result]) -> dict[str, Any]:
    """Everything that an artefact says."""
    texts = {}
    for r in results:
        assert not isinstance(r, Absent), r.caption
        if isinstance(r, Table):  # a line is marked by how well it is founded, a record is not
            r = replace(r, frame=r.frame.assign(tier=""))
        assert isinstance(r, Table) or hasattr(r, "data")
        texts[r.key] = (
            render.csv(r),
            render.markdown(r) if isinstance(r, Table) else "",
            r.caption,
            r.notes,
            r.claims,
        )  # type: ignore[arg-type]
    return texts


def test_files_of_before_a_field_was_kept_still_hold(
    small: tuple[list[Planned], Store, Path],
) -> None:
    items, store, root = small
    (path, *_), *_ = collect(items, store, root).files
    now = measured.read("tests", "smoke", root)
    rows = [line.split(",") for line in path.read_text().splitlines()]
    assert rows[0][-2:] == ["work", "checksum"]
    assert not any(row[-2] for row in rows[1:])
    path.write_text("".join(",".join([*row[:-2], row[-1]]) + "\n" for row in rows))
    early = measured.read("tests", "smoke", root)
    assert not early.problems
    assert [line.checksum for line in early.lines] == [line.checksum for line in now.lines]
    before = path.read_bytes()
    assert collect(items, store, root).files == [(path, 0, 3)]
    assert path.read_bytes() == before


def test_a_line_says_by_which_versions_it_was_made(
    small: tuple[list[Planned], Store, Path],
) -> None:
    items, store, root = small
    collect(items, store, root)
    known = recheck.of(items, root)
    (line, *_) = known.lines
    assert line.standing.current
    earlier = {**line.record.provenance["versions"], "engine": 0}
    made = {**line.record.provenance, "versions": earlier}
    known.add(replace(line, record=replace(line.record, provenance=made)))
    measured.write(known)
    again = recheck.of(items, root)
    assert not again.problems
    (other,) = again.cells[line.cell].values()
    assert other.standing.reason == "made by engine 0 (today 1)"
    assert other.origin_key != line.origin_key


def test_collected_values_stand_in_for_records(
    small: tuple[list[Planned], Store, Path], tmp_path: Path
) -> None:
    items, store, root = small
    with_records = make(items, Library(store), root)
    collect(items, store, root)
    without = make(items, Library(Store(tmp_path / "empty")), root)
    assert without.problems == []
    assert without.measured == set(without.used) == set(with_records.used)
    assert with_records.measured == set()
    assert forms(without.results) == forms(with_records.results)


def test_collecting_says_what_is_added_and_what_is_kept(
    small: tuple[list[Planned], Store, Path],
) -> None:
    items, store, root = small
    file = root / "tests" / "measured" / "smoke.csv"
    cell = items[0].cell.id
    some = [item for item in items if item.cell.id == cell]
    assert collect(some, store, root).files == [(file, 1, 0)]
    assert collect(items, store, root).files == [(file, 2, 1)]
    assert collect(items, store, root).files == [(file, 0, 3)]


def test_of_curves_only_those_are_kept_that_values_come_from_or_artefacts_read(
    small: tuple[list[Planned], Store, Path],
) -> None:
    items, store, root = small
    collect(items, store, root)
    known = measured.read("tests", "smoke", root)
    assert {name for line in known.lines for name in line.curves} == {"post_agg/mean"}
    for line in known.lines:
        rounds, values = line.curves["post_agg/mean"]
        assert values[rounds.tolist().index(line.record.metrics["round"])] == line.value
        assert line.counts is not None
        assert (line.counts.correct / line.counts.total).mean() == pytest.approx(line.value)


def test_collecting_again_changes_nothing_and_an_empty_store_takes_nothing_away(
    small: tuple[list[Planned], Store, Path], tmp_path: Path
) -> None:
    items, store, root = small
    collect(items, store, root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    collect(items[::-1], store, root)
    collect(items, Store(tmp_path / "empty"), root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_run_that_diverged_can_be_collected_again(
    grid: Path, store: Store, compute: Compute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = {"commit": "a" * 40, "dirty": False}
    monkeypatch.setattr("repfl.bench.store.provenance.commit", lambda: committed)
    grid.write_text(grid.read_text().replace("lr = 0.1", "lr = 1e30"))
    items = planned(grid)
    assert compute(Task(items[0].cell)).status == "diverged"
    first, again = (collect(items, store, tmp_path / "papers") for _ in range(2))
    (file, *_), *_ = first.files
    assert (first.files, again.files) == ([(file, 1, 0)], [(file, 0, 1)])
    assert again.conflicts == []


def test_the_index_keeps_the_lines_of_other_scales(
    small: tuple[list[Planned], Store, Path],
) -> None:
    items, store, root = small
    collect(items, store, root)
    known = measured.read("tests", "smoke", root)
    measured.write(replace(known, scale="desk"))
    assert measured.read("tests", "smoke", root).problems == []
    assert measured.read("tests", "desk", root).problems == []


def test_lines_of_an_older_version_of_a_method_go_once_the_method_is_collected_again(
    small: tuple[list[Planned], Store, Path], tmp_path: Path
) -> None:
    items, store, root = small
    collect(items, store, root)
    known, old = measured.read("tests", "smoke", root), "0" * 64
    line = known.lines[0]
    aged = replace(
        line,
        record=replace(line.record, id=old),
        axes={**line.axes, "version": "0"},
        arrays={"masks": ""},
    )
    place = known.place_of(aged, "masks")
    place.parent.mkdir()
    np.savez(place, mask=np.ones(3))
    known.add(replace(aged, arrays={"masks": of_file(place)}))
    measured.write(known)
    for at, left in ((Store(tmp_path / "empty"), True), (store, False)):
        collect(items, at, root)
        assert (old in measured.read("tests", "smoke", root).cells) == place.exists() == left
    assert len(measured.read("tests", "smoke", root).cells) == len(known.cells) - 1


def test_several_people_share_a_grid_by_leaving_out_what_is_measured(
    small: tuple[list[Planned], Store, Path],
) -> None:
    items, store, root = small
    assert measured.unmeasured(items, root) == items
    collect(items, store, root)
    left = measured.unmeasured(items, root)
    assert {item.cell.id for item in items} - {item.cell.id for item in left} == set(store.ids())


BROKEN = [
    ("smoke.csv", lambda text: "id,method\n", r"smoke\.csv:1: columns"),
    ("smoke.csv", lambda text: text + "1,2\n", r"smoke\.csv:5: has not"),
    (
        "index.csv",
        lambda text: text.replace("smoke.csv", "desk.csv"),
        r"smoke\.csv: is not listed in index\.csv",
    ),
    ("smoke.csv", lambda text: text.replace('"{""floor', '"{floor', 1), r"smoke\.csv:2: "),
    ("smoke-curves.csv", lambda text: text + "a,b,1:2:1,x\n", r"smoke-curves\.csv:\d+: "),
    (
        "smoke-origins.csv",
        lambda text: text.splitlines()[0] + "\n",
        r"smoke\.csv: cell \w{12}: has origin",
    ),
]


@pytest.mark.parametrize(("name", "change", "words"), BROKEN)
def test_a_broken_line_is_named_and_the_others_are_used(
    small: tuple[list[Planned], Store, Path],
    tmp_path: Path,
    name: str,
    change: Callable[[str], str],
    words: str,
) -> None:
    items, store, root = small
    collect(items, store, root)
    path = root / "tests" / "measured" / name
    path.write_text(change(path.read_text()))
    made = make(items, Library(Store(tmp_path / "empty")), root)
    assert any(re.search(words, problem) for problem in made.problems)
    assert len(made.results) == 2
    with pytest.raises(Corrupt, match="or its other lines would be lost"):
        collect(items, store, root)


@given(
    st.lists(
        st.one_of(st.integers(-(10**12), 10**12).map(float), st.floats(-1e6, 1e6, width=32)),
        max_size=30,
    )
)
def test_packed_numbers_come_back(values: list[float]) -> None:
    assert packing.unpack(packing.pack(np.array(values))).tolist() == values


@given(st.sets(st.integers(1, 500), min_size=1, max_size=40))
def test_packed_rounds_come_back(rounds: set[int]) -> None:
    assert packing.unpack_rounds(packing.pack_rounds(np.array(sorted(rounds)))).tolist() == sorted(
        rounds
    )


def test_even_rounds_and_repeated_numbers_are_short() -> None:
    assert packing.pack_rounds(np.arange(5, 401, 5)) == "5:400:5"
    assert packing.pack(np.full(400, 1234567.0)) == "1234567*400"


# -- the real papers -------------------------------------------------------------------------------

READERS = (
    "fedobp/table2",
    "fedobp/fig6",
    "fedpurin/table3",
    "fedpurin/fig5",
    "fedpurin/fig6",
    "fedselect/fig4",
    "star-pfl/fig1",
)
"""Artefacts that read notes, bytes by round, masks and traces."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Planned], Store, Path]]:
    """One cell of each of these artefacts at the smoke scale, computed and collected."""
    folder = tmp_path_factory.mktemp("real")
    store, items = Store(folder / "results"), plan(Selection(artefacts=READERS))
    store.open()
    first = {item.key: item.cell for item in reversed(items)}
    for cell in {cell.id: cell for cell in first.values()}.values():
        assert (
            run_task(Task(cell), Options(str(store.root)), lambda *_: None, lambda: False).status
            == "done"
        )
    collect(items, store, folder / "papers")
    yield items, store, folder / "papers"
    shutil.rmtree(folder)


def test_masks_bytes_notes_and_traces_are_all_that_artefacts_need(
    real: tuple[list[Planned], Store, Path], tmp_path: Path
) -> None:
    items, store, root = real
    with_records = make(items, Library(store), tmp_path / "none")
    without = make(items, Library(Store(tmp_path / "empty")), root)
    assert [r.key for r in without.results] == list(READERS)
    assert len(without.measured) >= 5
    assert forms(without.results) == forms(with_records.results)
    assert sum(path.stat().st_size for path in root.rglob("*.*")) < 200_000


def test_a_measured_line_comes_out_again_and_that_can_be_kept(
    real: tuple[list[Planned], Store, Path], tmp_path: Path
) -> None:
    root = tmp_path / "papers"
    shutil.copytree(real[2], root)
    found = recheck.verify(["fedobp"], rerun=1, root=root, keep=True)
    assert (found.findings, found.rerun) == ([], 1)
    known = measured.read("fedobp", "smoke", root)
    (again,) = known.reruns
    by_key = {line.key: line.cell for line in known.lines}
    assert Counter(tiers.tiers(known).values()) == {
        Tier.RECOMPUTED: 1,
        Tier.MEASURED: len(by_key) - 1,
    }
    assert tiers.tiers(known)[by_key[again]] is Tier.RECOMPUTED


def test_lines_of_cells_that_no_grid_plans_are_noted(
    real: tuple[list[Planned], Store, Path], tmp_path: Path
) -> None:
    root = tmp_path / "papers"
    shutil.copytree(real[2], root)
    known = measured.read("fedobp", "smoke", root)
    line = known.lines[0]
    known.add(replace(line, record=replace(line.record, id="0" * 64)))
    measured.write(known)
    found = recheck.verify(["fedobp"], root=root)
    assert found.findings == []
    assert "1 lines are of cells that no grid plans any more" in found.notes[0]


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no measured values"):
        recheck.verify(["fedobp"], root=tmp_path)
