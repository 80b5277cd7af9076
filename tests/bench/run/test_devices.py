"""Devices have explicit names, and what a user says about sharing them is understood or refused in
one line.
"""

from __future__ import annotations

import pytest

from repfl.bench.errors import UserError
from repfl.bench.run import devices


@pytest.mark.parametrize(
    ("said", "workers", "device", "gpus", "expected"),
    [
        (None, None, "cuda", 2, 1),
        (None, 4, "cuda", 2, 2),
        (None, 5, "cuda", 2, 3),
        (3, None, "cuda", 2, 3),
        (None, 4, "cpu", 0, 1),
    ],
)
def test_what_the_user_says_of_processes_and_sharing(
    said: int | None,
    workers: int | None,
    device: str,
    gpus: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: gpus)
    assert devices.share(said, workers, device) == expected


@pytest.mark.parametrize("said", [0, -1])
def test_sharing_that_makes_no_sense_is_refused(said: int) -> None:
    with pytest.raises(UserError, match="--per-gpu"):
        devices.share(said, None, "cuda")


def test_devices_have_explicit_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: 3)
    assert devices.places("cuda") == ["cuda:0", "cuda:1", "cuda:2"]
    assert devices.places("cpu") == ["cpu"]
    assert devices.resolve("auto") == "cuda"
    assert [devices.like(name) for name in ("cuda:7", "cuda", "cpu")] == ["cuda:0", "cuda:0", "cpu"]
    monkeypatch.setattr(devices, "gpus", lambda: 0)
    assert devices.resolve("auto") == "cpu"
    with pytest.raises(UserError, match="no GPU"):
        devices.resolve("cuda")
