"""Where a number comes from: whatever may change its bits changes the platform's fingerprint."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch

from repfl.bench.errors import UserError
from repfl.bench.run.machine import prepare_process
from repfl.bench.run.task import Options
from repfl.bench.store import provenance


def fingerprint() -> str:
    return str(provenance.platform_of("cpu", "fp64")["fingerprint"])


def test_a_platform_is_what_its_kernels_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provenance.blas()
    found, known = [fingerprint()], provenance.libraries()
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "blas", lambda: ["openblas-another"])
        found.append(fingerprint())
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "libraries", lambda: {**known, "scipy": "another"})
        found.append(fingerprint())
    for variable in provenance.KERNEL_VARIABLES:
        with monkeypatch.context() as patched:
            patched.setenv(variable, "another")
            found.append(fingerprint())
    assert len(set(found)) == len(found)
    assert fingerprint() == found[0]


def test_cells_are_computed_by_one_thread_whatever_library_computes() -> None:
    from threadpoolctl import threadpool_info

    prepare_process(Options())
    assert torch.get_num_threads() == 1
    assert {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    } == {1}


def test_a_copy_inside_somebodys_repository_has_no_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = ["-c", "user.name=x", "-c", "user.email=x@y"]
    # nobody's signatures, hooks and templates
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for command in (["init", "-q"], [*name, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    inside = tmp_path / ".venv" / "repfl"
    inside.mkdir(parents=True)
    found = []
    for root in (tmp_path, inside):
        monkeypatch.setattr(provenance, "ROOT", root)
        found.append(provenance.commit.__wrapped__()["commit"])
    assert len(found[0]) == 40
    assert found[1] is None


def test_nothing_is_written_beside_an_installed_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path / "repfl")
    provenance.refuse_installed_copy(tmp_path / "my_paper")
    with pytest.raises(UserError, match="work in a clone"):
        provenance.refuse_installed_copy(tmp_path / "repfl" / "paper_tables")
    (tmp_path / "repfl").mkdir()
    (tmp_path / "repfl" / "pyproject.toml").touch()
    provenance.refuse_installed_copy(tmp_path / "repfl" / "paper_tables")


def test_samples_that_are_grouped_otherwise_are_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {"iris/all": "a" * 64, "iris/groups": "b" * 64}
    monkeypatch.setattr(provenance, "_fingerprints", lambda _: marks)
    assert list(provenance.data_moved(marks)) == []
    assert list(provenance.data_moved({"iris/all": "a" * 64})) == []  # older records
    (moved,) = provenance.data_moved({**marks, "iris/groups": "c" * 64})
    assert moved.startswith("iris/groups had fingerprint cccc")
