"""The scripts beside the harness: the kit that fills a machine's minutes with planned cells,
rehearsed on a CPU, and the job array of bench/SCALING.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from repfl.bench.grid.plan import Selection, plan
from tests.bench.conftest import ROOT, environment

KIT, ORDER = ROOT / "bench" / "gpu_kit.sh", ROOT / "paper_tables" / "gpu_order.txt"


def test_every_line_of_the_order_selects_cells() -> None:
    lines = [line for line in ORDER.read_text().splitlines() if line and not line.startswith("#")]
    for line in lines:
        words = [word for word in line.split() if word != "--unmeasured"]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        asked = {name: [v for n, v in pairs if n == name] for name in ("--artefact", "--column")}
        assert set(dict(pairs)) <= {"--scale", *asked}
        planned = plan(Selection(scale="paper", artefacts=asked["--artefact"]))
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
    done = subprocess.run(asked, capture_output=True, text=True, env=environment(**known))
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "out" / "records.tar.gz") as packed:
        assert f"./{cell.cell.id}/record.json" in packed.getnames()
    assert subprocess.run(["bash", str(KIT)], capture_output=True).returncode == 2


def test_the_job_file_is_a_script_that_slurm_takes() -> None:
    page = (ROOT / "bench" / "SCALING.md").read_text()
    (script,) = re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    lines = script.splitlines()
    options = [line for line in lines if line.startswith("#SBATCH")]
    # Slurm reads no further than the first command
    assert lines[: 1 + len(options)] == ["#!/bin/bash", *options]
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in options)
