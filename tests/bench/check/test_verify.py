"""Verification finds what is wrong with a store, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repfl.bench.check.verify import verify
from repfl.bench.run.task import Outcome, Task
from repfl.bench.store.store import Store
from repfl.datasets.core.cache import prepared_path
from repfl.datasets.core.errors import DataError
from tests.bench.conftest import rewrite, task

Compute = Callable[..., Outcome]


def test_a_sound_store_has_no_findings(store: Store, compute: Compute) -> None:
    for seed in range(3):
        compute(task(seed=seed))
    found = verify(store, rerun=2)
    assert (found.records, found.rerun, found.findings, found.notes) == (3, 2, [], [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partition": None}, "provenance.partition: field required"),
        ({"partition": "0" * 64}, "partition is not that of the data here"),
        ({"samples": 7}, "samples is not that of the data here"),
    ],
)
def test_what_does_not_fit_is_a_finding(
    store: Store, compute: Compute, changes: dict[str, object], words: str
) -> None:
    compute(task())
    rewrite(store, task().cell.id, **changes)
    found = verify(store, rerun=1)
    assert len(found.findings) == 1
    assert words in found.findings[0]


def test_data_that_changed_are_findings_split_by_split(store: Store, compute: Compute) -> None:
    compute(task())
    rewrite(store, task().cell.id, data={"digits/train": "0" * 64})
    test, train = verify(store).findings
    assert "digits/test had fingerprint none, and here has" in test
    assert "digits/train had fingerprint 000000000000, and here has" in train


def test_data_that_are_no_longer_what_was_prepared_are_a_finding(
    store: Store, compute: Compute, own: Callable[[float], Task]
) -> None:
    assert compute(own(0.0)).status == "done"
    assert verify(store).findings == []
    with prepared_path("own").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x3f")
    (finding,) = verify(store).findings
    assert finding.startswith("own: split test does not match its fingerprint")


def test_what_was_made_on_a_gpu_is_not_computed_again_without_one(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repfl.bench.run.devices.gpus", lambda: 0)
    compute(task())
    rewrite(store, task().cell.id, device="cuda:3")
    found = verify(store, rerun=1)
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
    found = verify(store, rerun=1)
    assert (found.findings, found.rerun) == ([], 0)
    assert found.notes == ["1 record needs the data of digits, not here; not computed again"]


def test_strangers_and_debris_are_told_apart(store: Store, compute: Compute) -> None:
    compute(task())
    (store.root / "notes.txt").touch()
    (store.root / ("f" * 64)).mkdir()
    (store.running / "x.lock").touch()
    found = verify(store)
    assert len(found.findings) == 2
    assert len(found.notes) == 1
