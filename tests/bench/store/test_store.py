"""The store: whole records or none, every damage noticed, every fault of the disk one line."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.store import store as stores
from repfl.bench.store.record import SCHEMA, checksum, decode
from repfl.bench.store.store import Store, stored_result
from tests.bench.conftest import Compute, stored, task

FIXTURES = Path(__file__).with_name("fixtures")


def test_every_flipped_bit_and_every_truncation_is_noticed(store: Store, compute: Compute) -> None:
    wanted = task("fedpurin", evaluation={"tallies": ["mask"]})
    compute(wanted)
    cell, rng, noticed = wanted.cell.id, random.Random(0), 0
    for path in sorted(store.folder(cell).iterdir()):
        good = path.read_bytes()
        for trial in range(12):
            bad = bytearray(good)
            if trial % 2:
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            else:
                del bad[rng.randrange(len(bad)) :]
            path.write_bytes(bad)
            with pytest.raises((Corrupt, UserError)):
                store.verify(stored(store, cell))
            assert stored_result(store, cell) is None
            noticed += 1
        path.write_bytes(good)
    assert noticed == 48
    assert stored_result(store, cell) is not None


def test_a_missing_or_foreign_file_and_a_wrong_folder_are_noticed(
    store: Store, compute: Compute
) -> None:
    cell, other = task().cell.id, "0" * 64
    compute(task())
    shutil.copytree(store.folder(cell), store.folder(other))
    with pytest.raises(Corrupt, match="another cell"):
        store.get(other)
    record = stored(store, cell)
    (store.folder(cell) / "more").touch()
    assert store.strange_files(record) == ["more"]
    assert stored_result(store, cell) is not None
    (store.folder(cell) / "rounds.parquet").unlink()
    with pytest.raises(Corrupt, match=r"rounds\.parquet"):
        store.verify(record)


def altered(store: Store, **changes: Any) -> tuple[bytes, Path]:
    """A record with other fields and a right checksum."""
    path = store.folder(task().cell.id) / "record.json"
    values = {**json.loads(path.read_bytes()), **changes}
    del values["checksum"]
    return json.dumps({**values, "checksum": checksum(values)}).encode(), path


def test_a_record_of_another_schema_is_spared_and_says_what_to_do(
    store: Store, compute: Compute
) -> None:
    compute(task())
    for schema in ("1", None, 1.5, 99):
        data, path = altered(store, schema=schema)
        with pytest.raises(UserError, match="update repfl"):
            decode(data, path)
    path.write_bytes(data)
    for fresh in (False, True):
        outcome = compute(task(), fresh=fresh)
        assert outcome.status == "refused"
        assert "update repfl, or use another results folder" in outcome.reason
    assert path.read_bytes() == data


UNWRITTEN: list[dict[str, Any]] = [
    {"extra": 1},
    {"files": ["rounds.parquet"]},
    {"files": {"../../x": "0"}},
    {"cell": None},
    {"cell": {"seed": float("nan")}},
    {"status": "fine"},
    {"status": 3},
    {"metrics": []},
    {"provenance": 0},
    {"id": 1},
]
NO_RECORDS = [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff", b'{"schema": 1}']
NO_RECORDS += [b'{"checksum": [], "schema": {}}']


def test_what_repfl_would_not_write_is_refused(store: Store, compute: Compute) -> None:
    compute(task())
    for changes in UNWRITTEN:
        with pytest.raises(Corrupt, match=r"record\.json"):
            decode(*altered(store, **changes))
    for data in NO_RECORDS:
        with pytest.raises(Corrupt, match=r"not a whole record|checksum"):
            decode(data, store.root / "record.json")


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_records_of_every_schema_still_load(schema: int) -> None:
    store = Store(FIXTURES / f"schema-{schema}")
    (cell,) = store.ids()
    record = stored(store, cell)
    store.verify(record)
    assert record.status == "done"
    assert 0 <= record.value <= 1


def test_a_full_disk_leaves_what_was_stored(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(task())

    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(stores, "write_synced", full)
        for wanted, options in ((task(seed=1), {}), (task(), {"fresh": True})):
            outcome = compute(wanted, **options)
            assert outcome.status == "fatal"
            assert "No space left" in outcome.reason
    assert store.ids() == [task().cell.id]
    assert stored_result(store, task().cell.id) is not None
    assert list(store.running.iterdir()) == []
    assert compute(task(seed=1)).status == "done"


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_record_that_could_not_be_replaced_is_still_there(
    store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    """The old one has been moved aside when the new one cannot take its place."""
    compute(task())
    record, rename = stored_result(store, task().cell.id), Path.rename

    def faulty(path: Path, target: Path) -> Path:
        if path.suffix == ".new":
            raise fault
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", faulty)
    assert record is not None
    with pytest.raises((UserError, KeyboardInterrupt)):
        store.put(record, {})
    assert stored_result(store, record.id) == record
    assert list(store.running.iterdir()) == []


@pytest.mark.parametrize("fault", ["fsync", "replace"])
def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "smoke.jsonl"
    path.write_bytes(b"old")
    where, name = (os, "fsync") if fault == "fsync" else (Path, "replace")
    monkeypatch.setattr(where, name, full)
    with pytest.raises(OSError, match="No space left"):
        stores.replace_file(path, b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"smoke.jsonl": b"old"}


def test_a_file_in_the_place_of_a_folder_is_named_and_space_is_not_to_blame(tmp_path: Path) -> None:
    (tmp_path / ".running").touch()
    with pytest.raises(UserError, match=r"\.running: is a file") as caught:
        Store(tmp_path).open()
    assert "space" not in str(caught.value)
