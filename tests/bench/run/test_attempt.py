"""One cell: its faults become records, and however often it is interrupted, its bits are the
same.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from repfl.algorithms.core import ENGINE
from repfl.bench.run import clients
from repfl.bench.run.attempt import crashed
from repfl.bench.run.record_parts import now
from repfl.bench.run.task import Options
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, digests, stored, task

MASKED = {"evaluation": {"tallies": ["mask"]}, "model": "tiny-bn"}


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fedpurin", MASKED),
        ("dfedavgm", {"clients": 4}),
        ("fedavg", {"clients": 4, "participation": 0.5}),
    ],
)
def test_a_cell_interrupted_after_every_round_ends_with_the_same_digests(
    store: Store, compute: Compute, method: str, changes: dict[str, Any]
) -> None:
    wanted = task(method, **changes)
    assert compute(wanted).status == "done"
    whole = digests(store.root)
    statuses = []
    while not statuses or statuses[-1] == "interrupted":
        statuses.append(compute(wanted, stop=lambda: True, fresh=True).status)
    assert statuses == ["interrupted", "interrupted", "done"]
    assert digests(store.root) == whole
    assert list(store.running.iterdir()) == []


def test_a_checkpoint_of_other_data_is_not_gone_on_from(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clients.clients_of
    with monkeypatch.context() as patch:
        other = {"digits/all": "0" * 64}
        patch.setattr(clients, "clients_of", lambda cell: replace(real(cell), fingerprints=other))
        assert compute(task(), stop=lambda: True).status == "interrupted"
    statuses = [compute(task(), stop=lambda: True).status for _ in range(task().cell.rounds)]
    assert statuses[-2:] == ["interrupted", "done"]


def test_a_resumed_cell_has_all_of_its_seconds(
    store: Store, compute: Compute, faulty: Path
) -> None:
    """Of the processor as of the clock."""
    wanted, asked = task("test-slow", hp={"seconds": 0.3}), count()
    assert compute(wanted, stop=lambda: next(asked) == 0).status == "interrupted"
    assert compute(wanted).status == "done"
    record = stored(store, wanted.cell.id)
    spent = record.origin.seconds
    assert spent.wall > 0.9
    assert 0 < spent.processor < spent.wall


@pytest.mark.parametrize(("method", "fresh"), [("test-raise", False), ("local", True)])
def test_a_run_tries_a_failed_cell_and_a_fresh_one_once(
    compute: Compute, faulty: Path, method: str, fresh: bool
) -> None:
    compute(task(method))
    began = now()
    spent = [compute(task(method), fresh=fresh, began=began).seconds for _ in range(2)]
    assert spent[0] > 0 == spent[1]


def test_a_worker_killed_while_it_replaces_a_record_costs_no_finished_cell(
    store: Store, compute: Compute
) -> None:
    """Between two renames, when the record lies aside."""
    compute(task())
    cell = task().cell.id
    for next_ in (
        lambda: crashed(task(), Options(str(store.root)), "killed"),
        lambda: compute(task()),
    ):
        store.folder(cell).rename(store.running / f"{cell}.old")
        (store.running / f"{cell}.new").mkdir()
        assert next_().status in ("failed", "cached")
        assert digests(store.root)
        assert list(store.running.iterdir()) == []


def test_a_diverged_cell_is_final_and_a_failure_leaves_the_finished_result_alone(
    store: Store, compute: Compute, faulty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compute(task("test-nan")).seconds > 0
    again = compute(task("test-nan"))
    assert (again.status, again.seconds) == ("diverged", 0)
    record = stored(store, again.id)
    assert sorted(record.origin.data) == ["digits/test", "digits/train"]
    shutil.rmtree(store.folder(again.id))
    wanted = task("test-raise")
    monkeypatch.setenv("REPFL_TEST_MENDED", "yes")
    assert compute(wanted).status == "done"
    before = digests(store.root)
    monkeypatch.delenv("REPFL_TEST_MENDED")
    outcome = compute(wanted, fresh=True)
    assert outcome.status == "failed"
    assert outcome.reason.endswith("the earlier result stays")
    assert digests(store.root) == before


def test_a_cell_without_its_data_is_refused_and_one_that_makes_no_sense_is_skipped(
    store: Store, compute: Compute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path / "none"))
    outcome = compute(task(dataset="cifar10"))
    assert outcome.status == "refused"
    assert "cifar10" in outcome.reason
    assert store.ids() == []
    outcome = compute(replace(task("fedbn"), skip="no normalisation"))
    assert (outcome.status, outcome.reason) == ("skipped", "no normalisation")
    assert store.ids() == [outcome.id]


def test_provenance_says_how_a_number_was_made(store: Store, compute: Compute) -> None:
    compute(task())
    record = stored(store, task().cell.id)
    origin = record.origin
    assert origin.versions == {"engine": ENGINE, "method": 1, "dataset": 1, "rule": 1}
    assert origin.platform.torch
    assert origin.data["digits/train"]
    assert len(origin.partition) == 64
    assert origin.threads == 1
    assert origin.seconds.wall >= origin.seconds.train > 0
    assert origin.peak_memory > 0
    assert origin.samples == 40
