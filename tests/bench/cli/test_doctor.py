"""The doctor finds what is wrong with an environment, says what to do, and tells what is in the way
from what is worth knowing.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.conftest import Here

Usage = namedtuple("Usage", "total used free")
ABSENT = "repfl.bench.grid.catalog.data_absent"


@pytest.mark.parametrize(
    ("place", "value", "code", "level", "words"),
    [
        ("torch.cuda.is_available", lambda: False, 0, "note", "no GPU"),
        ("shutil.disk_usage", lambda _: Usage(1, 1, 5 << 20), 1, "bad", "only 5 MiB free"),
        ("os.access", lambda *_: False, 1, "bad", "cannot be written: choose another folder"),
        (ABSENT, lambda name: "" if name == "digits" else "x", 0, "note", "`repfl data get NAME`"),
        (ABSENT, lambda name: f"{name} is not here", 1, "bad", "digits is not here"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    place: str,
    value: Callable[..., object],
    code: int,
    level: str,
    words: str,
) -> None:
    monkeypatch.setattr(place, value)
    said = here("doctor", "--results", tmp_path / "r")
    lines = [line for line in said.out.splitlines() if words in line]
    assert lines
    assert lines[0].startswith(level)
    assert said.code >= code
