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
from repfl.bench.store.record import checksum
from repfl.bench.store.store import Store
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


def damage(results: Path, files: dict[str, bytes]) -> Path:
    """Replace files of a record; return the first one."""
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
    return store.folder(record.id) / next(iter(files))


def rewrite_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record, and compute its checksum again."""
    values = json.loads(path.read_bytes())
    change(values)
    values["checksum"] = checksum(values)
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")


def finding(here: Here, results: Path) -> str:
    """What `verify` finds, which checks and computes the others."""
    found = here("verify", "--results", results, "--rerun", "1")
    findings = [line for line in found.out.splitlines() if line.startswith("finding: ")]
    assert (found.code, len(findings)) == (1, 1), found.out
    assert "8 records checked, 1 computed again: 1 finding" in found.out
    return findings[0]


@pytest.mark.parametrize("files", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_finding(here: Here, results: Path, files: dict[str, bytes]) -> None:
    path = damage(results, files)
    assert finding(here, results).startswith(f"finding: {path}: ")


@pytest.mark.parametrize("name", ["no parquet", "other columns", "words for numbers"])
def test_the_others_are_reported(
    here: Here, grid: Path, results: Path, tmp_path: Path, name: str
) -> None:
    path = damage(results, BROKEN[name])
    asked = ("--grid", grid, "--results", results)
    report = here("report", *asked, "--out", tmp_path / "out")
    assert "free space" not in report.out + report.err
    assert (tmp_path / "out" / "tests" / "table1.csv").exists()
    reads = path.name == "rounds.parquet"  # and says then what is wrong with it
    assert (report.code, str(path) in report.out) == (int(reads), reads)


@pytest.mark.parametrize("name", ["rounds.parquet", "clients.parquet"])
def test_a_damaged_record_is_planned_and_computed_again(
    here: Here, grid: Path, results: Path, name: str
) -> None:
    victim = next(results.glob(f"*/{name}"))
    if name == "rounds.parquet":
        victim.write_bytes(victim.read_bytes()[:-1])
    else:
        victim.unlink()
    assert str(victim) in finding(here, results)
    facts = json.loads(here("plan", "--grid", grid, "--results", results, "--json").out)
    missing = {each["id"]: each["reason"] for each in facts["cells"] if each["status"] == "missing"}
    assert missing.keys() == {victim.parent.name}
    assert str(victim) in missing[victim.parent.name]
    listed = json.loads(here("list", "runs", "--results", results, "--json").out)
    assert [each["run"] for each in listed if each["status"] == "missing"] == [victim.parent.name]
    said = here("show", victim.parent.name, "--results", results)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert victim.name in said.err
    run = ("run", "--grid", grid, "--results", results, "--executor", "inline")
    assert "1 computed" in here(*run).out
    assert here("verify", "--results", results).code == 0


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
    moved = replace(record, id=sha256(canonical(cell).encode()).hexdigest(), cell=cell)
    folder.rename(store.folder(moved.id))
    rewrite(store, moved)
    assert moved.id[:12] in finding(here, results)
