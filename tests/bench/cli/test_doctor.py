"""The doctor finds what is wrong with an environment, says what to do, and tells what is in the way
from what is worth knowing.
"""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.conftest import Said

Here = Callable[..., Said]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def answer(here: Here, tmp_path: Path) -> Callable[[], Said]:
    return lambda: here("doctor", "--results", tmp_path / "r")


def lines(said: Said, words: str) -> list[str]:
    """What is said about something."""
    return [line for line in said.out.splitlines() if words in line]


def test_no_gpu_is_worth_knowing(
    answer: Callable[[], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (line,) = lines(answer(), "no GPU")
    assert line.startswith("note")
    assert "smoke and desk scale" in line


def test_low_disk_is_in_the_way(
    answer: Callable[[], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 1 << 40, 5 << 20))
    said = answer()
    assert said.code == 1
    assert all(
        line.startswith("bad") and "free some space" in line
        for line in lines(said, "only 5 MiB free")
    )
    assert len(lines(said, "only 5 MiB free")) == 2


def test_missing_data_are_named_with_the_command_that_gets_them(
    answer: Callable[[], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "repfl.bench.grid.recipes.data_absent"
    monkeypatch.setattr(asked, lambda name: "" if name == "digits" else f"{name} is not here")
    (line,) = lines(answer(), "data absent")
    assert line.startswith("note")
    assert "cifar10, cifar100" in line
    assert "repfl data get" in line
    monkeypatch.setattr(asked, lambda name: f"{name} is not here")
    said = answer()
    assert said.code == 1
    assert lines(said, "digits is not here")[0].startswith("bad")


def test_a_folder_that_cannot_be_written_is_in_the_way(
    answer: Callable[[], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    said = answer()
    assert said.code == 1
    assert lines(said, "results folder")[0].startswith("bad")
    assert "cannot be written" in lines(said, "results folder")[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("OMP_NUM_THREADS", "7"), ("MKL_CBWR", "COMPATIBLE"), ("OPENBLAS_CORETYPE", "Haswell")],
)
def test_settings_that_change_threads_or_bits_are_told(
    answer: Callable[[], Said], monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    monkeypatch.setenv(name, value)
    (line,) = lines(answer(), f"{name}={value}")
    assert line.startswith("note")
