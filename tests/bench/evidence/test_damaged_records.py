"""A record whose content is broken, although its checksums are right, costs one line: `verify` and
`report` go on with all others, and nothing is shown of it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from repfl.bench.grid.cell import canonical
from repfl.bench.store.store import Store, checksum
from tests.bench.conftest import Here, rewrite, stored

Change = Callable[[dict[str, bytes]], None]


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pd.DataFrame(columns).to_parquet(sink)
    return sink.getvalue()


def objects() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, mask=np.array([{"not": "an array"}], dtype=object))
    return sink.getvalue()


SHOWN = ("fedavg", 2)
BROKEN: dict[str, dict[str, bytes]] = {
    "no parquet": {"rounds.parquet": b"PAR1 and nothing more"},
    "a cut parquet": {"clients.parquet": parquet(round=[1], point=["post_agg"])[:-9]},
    "other columns": {"clients.parquet": parquet(round=[1], point=["post_agg"], pupil=[0])},
    "words for numbers": {"rounds.parquet": parquet(round=[1], name=["x"], value=["high"])},
    "an object array": {"arrays.npz": objects()},
    "no archive": {"arrays.npz": b"PK and nothing more"},
}


@pytest.fixture
def results(here: Here, grid: Path, tmp_path: Path) -> Path:
    """Four records, of Local and FedAvg."""
    asked = ("--grid", grid, "--results", tmp_path / "r", "--executor", "inline", "--seed", "0")
    assert here("run", *asked).code == 0
    return tmp_path / "r"


def damage(results: Path, files: dict[str, bytes]) -> tuple[str, Path]:
    """Replace files of a record; return its id and the first file."""
    store = Store(results)
    records = [stored(store, cell) for cell in store.ids()]
    # of the recipe whose curves the figure shows
    record = next(
        each for each in records if (each.cell["method"], each.cell["recipe"]["clients"]) == SHOWN
    )
    for name, data in files.items():
        (store.folder(record.id) / name).write_bytes(data)
    path = store.folder(record.id) / "record.json"
    digests = {name: sha256(data).hexdigest() for name, data in files.items()}
    rewrite_json(path, lambda values: values["files"].update(digests))
    return record.id, store.folder(record.id) / next(iter(files))


def rewrite_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record, and compute its checksum again."""
    values = json.loads(path.read_bytes())
    change(values)
    values["checksum"] = checksum(values)
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("files", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_finding_and_the_others_are_checked_and_reported(
    here: Here, grid: Path, results: Path, tmp_path: Path, files: dict[str, bytes]
) -> None:
    _, path = damage(results, files)
    found = here("verify", "--results", results, "--rerun", "3")
    assert found.code == 1
    findings = [line for line in found.out.splitlines() if line.startswith("finding: ")]
    assert len(findings) == 1
    assert findings[0].startswith(f"finding: {path}: ")
    assert "4 records checked, 3 computed again: 1 finding" in found.out
    asked = ("--grid", grid, "--results", results, "--seed", "0", "--out", tmp_path / "out")
    report = here("report", *asked)
    assert "free space" not in report.out + report.err
    assert (tmp_path / "out" / "tests" / "table1.csv").exists()
    reads = path.name == "rounds.parquet"  # and says then what is wrong with it
    assert (report.code, str(path) in report.out) == (int(reads), reads)


CELLS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a cell without a recipe": lambda cell: cell.pop("recipe"),
    "a cell without a method": lambda cell: cell.pop("method"),
    "a recipe without a data set": lambda cell: cell["recipe"].pop("dataset"),
}


@pytest.mark.parametrize("change", CELLS.values(), ids=CELLS)
def test_a_record_of_no_cell_is_one_finding_and_the_others_are_checked(
    here: Here, results: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    store = Store(results)
    record = stored(store, store.ids()[0])
    cell = json.loads(json.dumps(record.cell))
    change(cell)
    folder = store.folder(record.id)
    moved = replace(record, id=store_id(cell), cell=cell)
    folder.rename(store.folder(moved.id))
    rewrite(store, moved)
    found = here("verify", "--results", results, "--rerun", "4")
    assert found.code == 1
    findings = [line for line in found.out.splitlines() if line.startswith("finding: ")]
    assert len(findings) == 1
    assert moved.id[:12] in findings[0]
    assert "4 records checked, 3 computed again: 1 finding" in found.out


def store_id(cell: dict[str, Any]) -> str:
    return sha256(canonical(cell).encode()).hexdigest()
