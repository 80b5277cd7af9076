"""The kit that fills a machine's minutes with planned cells: rehearsed on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from repfl.bench.grid.grid import files
from repfl.bench.grid.plan import Selection, plan

ROOT = Path(__file__).parents[3]
KIT, ORDER = ROOT / "bench" / "gpu_kit.sh", ROOT / "paper_tables" / "gpu_order.txt"


def lines() -> list[str]:
    return [line for line in ORDER.read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("line", lines())
def test_every_line_of_the_order_selects_cells(line: str) -> None:
    words = [word for word in line.split() if word != "--unmeasured"]
    pairs = list(zip(words[::2], words[1::2], strict=True))
    asked = {name: [v for n, v in pairs if n == name] for name in ("--artefact", "--column")}
    assert set(dict(pairs)) <= {"--scale", *asked}
    planned = plan(Selection(scale="paper", artefacts=asked["--artefact"]))
    assert {item.paper for item in planned} <= set(files())
    assert set(asked["--column"]) <= {item.column for item in planned}


def test_the_kit_computes_what_the_order_names_and_packs_records(tmp_path: Path) -> None:
    (cell, *_) = plan(Selection(scale="smoke", artefacts=["star-pfl/table2"]))
    order = tmp_path / "order.txt"
    order.write_text(f"# a comment\n\n--scale smoke --cell {cell.cell.short}\n")
    command = tmp_path / "bin" / "repfl"  # which need not be on the path of who runs the tests
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m repfl "$@"\n')
    command.chmod(0o755)
    known = {"DEVICE": "cpu", "REPFL_RESULTS": str(tmp_path / "results")}
    known["PATH"] = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    asked = ["bash", str(KIT), "10", str(tmp_path / "out"), str(order)]
    environment = {**os.environ, **known, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(": 1 records\n")
    with tarfile.open(tmp_path / "out" / "records.tar.gz") as packed:
        assert f"./{cell.cell.id}/record.json" in packed.getnames()


def test_the_kit_says_how_it_is_used() -> None:
    done = subprocess.run(["bash", str(KIT)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "MINUTES OUT" in done.stdout
