"""Rows of very many clients: the same numbers in a file, and memory for participants alone."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from typing import Any

import pytest
import torch

from repfl.algorithms.core import client_rows
from repfl.algorithms.core.client_rows import ClientRows, RowsError
from repfl.algorithms.core.run import Run
from tests.algorithms import toys
from tests.bench.conftest import ROOT, environment

METHODS = ("apfl", "ditto", "fedbabu", "feddpa", "fedobp", "fedper", "fedpurin", "fedselect")
METHODS += ("floco", "local", "fedcac", "pfedsd")


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows lie in files, however small they are."""
    monkeypatch.setattr(client_rows, "LIMIT", 0)


def kept(run: Run) -> list[Any]:
    """What a run recorded, without times."""
    return [row for row in run.rows if not row[1].startswith("time/")]


@pytest.mark.parametrize("method", METHODS)
def test_rows_in_a_file_give_the_same_bits(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "participation": 0.5, "buffers": "local"}
    hp = {"plus_epochs": 1} if method == "floco" else {}
    whole = toys.run(method, hp, **how)
    monkeypatch.setattr(client_rows, "LIMIT", 0)
    run = toys.run(method, hp, **how)
    in_file = {n: v for n, v in run.state.items() if isinstance(v, ClientRows)}
    assert in_file
    assert kept(run) == kept(whole)
    for name, rows in in_file.items():
        assert torch.equal(rows[run.fed.all_clients], whole.state[name])
        if rows.shape[1] and rows.dtype != torch.bool:
            assert torch.allclose(rows.mean(0), whole.state[name].mean(0), atol=1e-6)


@pytest.mark.usefixtures("in_files")
def test_a_checkpoint_holds_written_rows_alone_and_goes_on_with_the_same_bits() -> None:
    how: dict[str, Any] = {"participation": 1 / 6}
    whole, half = toys.run("fedobp", **how), toys.run("fedobp", rounds=1, **how)
    saved = {name: t.clone() for name, t in half.snapshot().items()}
    assert len(saved["rows/last/rows"]) == 1
    half.restore(saved)
    while not half.done:
        half.step()
    assert kept(half) == kept(whole)


def test_a_disk_without_room_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(client_rows.shutil, "disk_usage", lambda _: usage(1 << 20))
    with pytest.raises(RowsError, match=r"may need 4\.0 GB, but .* has 0\.0 GB left; let TMPDIR"):
        ClientRows(torch.zeros(1000), 10**6)


LARGE = """
import resource
import torch
from repfl.algorithms.core.client_rows import ClientRows
rows = ClientRows(torch.ones(1_000_000), 10_000)  # 40 GB
ids = torch.tensor([3, 9_999])
rows.index_copy_(0, ids, torch.full((2, 1_000_000), 2.0))
assert rows[torch.tensor([0, 3, 9_999])].mean(1).tolist() == [1, 2, 2]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_clients_that_never_took_part_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    code = LARGE.replace(
        "rows = ",
        "import shutil; shutil.disk_usage = lambda _: type('U', (), {'free': 1 << 60}); rows = ",
        1,
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # of 40 GB; a process begins with the peak of the one that started it
    assert int(done.stdout) < 4 << 20  # KiB
