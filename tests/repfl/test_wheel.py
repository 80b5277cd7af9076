"""The wheel holds everything below `repfl/`, and works where there is no clone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.bench.conftest import ROOT

FOLDERS = ("algorithms", "bench", "datasets", "paper_tables")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    out: Path = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_every_file_of_the_clone_is_in_it_and_nothing_is_outside_repfl(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0].rpartition(".")[2] for name in names} == {"repfl", "dist-info"}
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts]
    wanted = {f"repfl/{path.relative_to(ROOT).as_posix()}" for path in files}
    wanted |= {f"repfl/{path.name}" for path in (ROOT / "repfl").glob("*.py")}
    assert wanted - names == set()


def test_it_works_without_a_clone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import repfl; from repfl.bench.cli.main import call; print(repfl.__file__);"
        "raise SystemExit(call(['report', '--artefact', 'fedobp/table2']))"
    )
    env = {"PYTHONPATH": str(tmp_path / "site"), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    how = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "check": True}
    done = subprocess.run([sys.executable, "-c", code], **how)
    assert str(tmp_path / "site" / "repfl") in done.stdout
    assert (tmp_path / "report" / "index.html").exists()
