"""Disks that are full or cannot be written: one line, the exit code of a user's error, and every
finished record as it was.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from repfl.bench.store.store import Store
from tests.bench.conftest import GRID, Here, Said, stored

ROOM = 8 << 20
"""Bytes of the disk: more than any of these runs writes, so it is full only once it was filled."""
PIECE = 1 << 16


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with room for a run."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk, and root alone is not stopped by permissions")
    try:
        mount("-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, room: int = 0) -> Path:
    """Write a file until the disk is full, and give that many bytes of it back."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        piece = PIECE
        while piece:
            try:
                file.write(bytes(piece))
            except OSError:  # no room for a piece of this size
                piece //= 2
        file.truncate(max(0, file.tell() - room))
    return ballast


def size_on_disk(folder: Path) -> int:
    """Return the bytes that a folder's files occupy."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def kept(results: Path) -> int:
    """How many records there are, each of them whole."""
    store = Store(results)
    for cell in store.ids():
        record = stored(store, cell)
        store.verify(record)
    leftovers = {path.name for path in results.iterdir()} - {".running", *store.ids()}
    assert not leftovers
    return len(store.ids())


def refused(said: Said, *words: str) -> None:
    """One line at the end, which says what is wrong with which folder."""
    last = said.err.splitlines()[-1]
    assert said.code == 2
    assert last.startswith("repfl: ")
    assert said.err.count("repfl: ") == 1
    for word in words:
        assert word in last


def test_a_full_disk_ends_a_run_in_one_line_and_it_goes_on_once_there_is_room(
    here: Here, grid: Path, disk: Path, forked: None
) -> None:
    command = ("run", "--grid", grid, "--results", disk / "r")
    assert here(*command, "--seed", "0", "--executor", "inline").code == 0
    store = Store(disk / "r")
    largest = max(size_on_disk(store.folder(cell)) for cell in store.ids())
    ballast = fill(disk, room=2 * largest)  # for some of the four others
    said = here(*command, "--workers", "1")
    refused(said, str(disk / "r"), "No space left on device", "free space, or choose another")
    before = kept(disk / "r")
    assert 4 <= before < 8
    assert here("verify", "--results", disk / "r").code == 0
    ballast.unlink()
    again = here(*command, "--executor", "inline")
    assert again.code == 0
    assert f"{8 - before} computed" in again.out
    assert kept(disk / "r") == 8
    assert not list((disk / "r" / ".running").iterdir())


def test_a_disk_that_cannot_be_written_serves_reports_and_refuses_runs(
    here: Here, grid: Path, disk: Path, tmp_path: Path
) -> None:
    asked = ("--grid", grid, "--results", disk / "r")
    assert here("run", *asked, "--seed", "0", "--executor", "inline").code == 0
    mount("-o", "remount,ro", str(disk))
    said = here("run", *asked, "--executor", "inline")
    refused(said, str(disk / "r"), "Read-only file system")
    said = here("report", *asked, "--out", disk / "out")
    refused(said, str(disk / "out"), "Read-only file system")
    assert kept(disk / "r") == 4
    finished = here("run", *asked, "--seed", "0")
    assert (finished.code, "4 there already" in finished.out) == (0, True)
    assert here("verify", "--results", disk / "r", "--rerun", "1").code == 0
    assert here("plan", *asked).code == 0
    assert here("report", *asked, "--out", tmp_path / "out").code == 0
    mount("-o", "remount,rw", str(disk))


def test_a_disk_that_fills_up_under_a_checkpoint_ends_the_run_in_one_line(
    here: Here, grid: Path, disk: Path
) -> None:
    grid.write_text(GRID.replace("rounds = 2", "rounds = 5000").replace("= 2\n", "= 40\n"))
    # one block for the probe of the folder; the models of 40 clients take more, whatever a block is
    fill(disk, room=os.statvfs(disk).f_frsize)
    how = ("--executor", "inline", "--checkpoint", "0.001")
    refused(here("run", "--grid", grid, "--results", disk / "r", *how), "No space left on device")
    assert kept(disk / "r") == 0
    assert not [path for path in (disk / "r" / ".running").iterdir() if path.suffix == ".lock"]
