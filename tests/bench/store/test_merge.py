"""Merging results folders: what is missing comes over whole, and nothing finished is replaced."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from repfl.bench.store.locks import claim
from repfl.bench.store.merge import merge
from repfl.bench.store.record import MODELS, checksum
from repfl.bench.store.store import Store, stored_result
from tests.bench.conftest import Here, changed, run_in, stored, task
from tests.bench.deaths import begin, last_words

ONE, TWO = task(), task(seed=1)


def contents(root: Path) -> dict[str, bytes]:
    """All files of a folder but the lock files."""
    paths = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.fixture
def other(tmp_path: Path) -> Store:
    """A colleague's folder with two finished cells, one with the clients' models."""
    store = Store(tmp_path / "other")
    run_in(store.root, ONE)
    run_in(store.root, TWO, keep_models="last")
    return store


def test_missing_records_come_over_byte_by_byte_and_once(
    here: Here, other: Store, store: Store
) -> None:
    before = contents(other.root)
    command = ("merge", other.root, "--results", store.root)
    said = here(*command)
    assert (said.code, said.out) == (0, f"{other.root} -> {store.root}: 2 records taken\n")
    assert contents(store.root) == contents(other.root) == before
    assert MODELS in stored(store, TWO.cell.id).files
    said = here(*command)
    assert (said.code, said.out.endswith(": 0 records taken, 2 there already\n")) == (0, True)
    assert contents(store.root) == before
    assert here("verify", "--results", store.root).code == 0
    assert run_in(store.root, ONE).status == "cached"


def test_a_finished_record_replaces_a_failed_or_damaged_one_and_no_other(
    other: Store, store: Store
) -> None:
    run_in(store.root, ONE)
    run_in(store.root, TWO)
    changed(store, ONE.cell.id, status="failed")
    (store.folder(TWO.cell.id) / "rounds.parquet").write_bytes(b"damaged")
    merged = merge(other, store)
    assert (merged.taken, merged.replaced, merged.findings) == (2, 2, [])
    assert contents(store.root) == contents(other.root)
    for status in ("failed", "done"):
        changed(other, ONE.cell.id, status=status)
        assert merge(other, store).there == 2
        assert stored(store, ONE.cell.id).status == "done"


def test_a_failed_record_comes_over_only_where_there_is_nothing(other: Store, store: Store) -> None:
    run_in(store.root, TWO)
    for task_ in (ONE, TWO):
        changed(other, task_.cell.id, status="failed")
    (store.folder(TWO.cell.id) / "rounds.parquet").write_bytes(b"damaged")
    before = contents(store.folder(TWO.cell.id))
    merged = merge(other, store)
    assert (merged.taken, merged.there) == (1, 1)
    assert stored(store, ONE.cell.id).status == "failed"
    assert contents(store.folder(TWO.cell.id)) == before


def test_different_results_are_named_and_ours_stays(here: Here, other: Store, store: Store) -> None:
    run_in(store.root, ONE)
    clean = stored(store, ONE.cell.id).origin.changed(dirty=False)
    ours = changed(store, ONE.cell.id, provenance=clean)
    before, wrong = contents(store.root), ours.metrics.changed(value=0.125)
    changed(other, ONE.cell.id, provenance=clean, metrics=wrong)
    said = here("merge", other.root, "--results", store.root)
    line = f"finding: cell {ONE.cell.id[:12]} (fedavg, seed 0): {100 * ours.value:.2f} %"
    assert said.code == 1
    assert f"{line} here, 12.50 % in {other.root}, though versions" in said.out
    origin = clean.changed(versions={**clean.versions, "engine": 0})
    changed(other, ONE.cell.id, provenance=origin)
    said = here("merge", other.root, "--results", store.root)
    assert (said.code, "with other versions; not taken" in said.out) == (0, True)
    assert contents(store.root).items() >= before.items()


def test_a_damaged_record_is_a_finding_and_the_others_come_over(
    here: Here, other: Store, store: Store
) -> None:
    (victim := other.folder(ONE.cell.id) / "clients.parquet").write_bytes(b"damaged")
    said = here("merge", other.root, "--results", store.root)
    assert (said.code, str(victim) in said.out) == (1, True)
    assert store.ids() == [TWO.cell.id]


def test_a_record_of_a_newer_schema_is_spared(other: Store, store: Store) -> None:
    run_in(store.root, ONE)
    path = store.folder(ONE.cell.id) / "record.json"
    values = {**json.loads(path.read_bytes()), "schema": 99}
    path.write_text(json.dumps({**values, "checksum": checksum(values)}))
    before = path.read_bytes()
    merged = merge(other, store)
    assert (merged.taken, len(merged.findings), path.read_bytes()) == (1, 1, before)


def test_a_cell_that_is_being_computed_here_is_left_alone(other: Store, store: Store) -> None:
    with claim(store, ONE.cell.id):
        merged = merge(other, store)
    assert (merged.taken, merged.busy) == (1, 1)
    assert store.ids() == [TWO.cell.id]
    assert merge(other, store).taken == 1


def test_wrong_folders_are_refused_before_anything_is_taken(
    here: Here, other: Store, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(store.root)
    for folder, words in (("empty", "no records"), ("link", "itself"), ("absent", "no folder")):
        said = here("merge", other.root, tmp_path / folder, "--results", store.root)
        assert (said.code, said.err.count("\n"), words in said.err) == (2, 1, True)
    assert store.ids() == []


def test_a_merge_that_is_killed_loses_nothing_and_is_made_good(
    other: Store, tmp_path: Path
) -> None:
    """Before each change to the folder: one cell is missing there, one failed."""

    def started(name: str) -> Store:
        store = Store(tmp_path / name)
        run_in(store.root, ONE)
        changed(store, ONE.cell.id, status="failed")
        return store

    whole = started("whole")
    merge(other, whole)  # here, so that what it imports is not imported in every fork
    store = started("counted")
    taken, moves = last_words(*begin(store.root, lambda: merge(other, store).taken))
    assert (taken, moves > 10) == (2, True)
    for death in range(1, moves + 1):
        store = started(str(death))
        assert last_words(*begin(store.root, partial(merge, other, store), death)) is None
        merge(other, store)
        assert contents(store.root) == contents(whole.root) == contents(other.root)
        assert list(store.running.iterdir()) == []
        assert stored_result(store, ONE.cell.id) == stored(other, ONE.cell.id)
