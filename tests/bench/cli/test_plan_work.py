"""What a plan does once, however many cells it has: counted, since time depends on the machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.evidence import status
from repfl.bench.grid import grid
from repfl.bench.store import locks, store
from tests.bench.conftest import Said

Here = Callable[..., Said]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Counter[Any]]:
    """Calls of a function, by its first argument."""

    def count(module: Any, name: str, known: Callable[..., Any] = lambda *a: a) -> Counter[Any]:
        calls, function = Counter[Any](), getattr(module, name)

        @wraps(function)
        def told(*arguments: Any, **options: Any) -> Any:
            calls[known(*arguments)] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, told)
        return calls

    return count


def test_every_record_is_read_once_and_no_measured_line_beside_it(
    here: Here, counted: Callable[..., Counter[Any]], tmp_path: Path
) -> None:
    asked = ("--artefact", "star-pfl/fig1", "--results", tmp_path)
    assert here("run", *asked, "--executor", "inline").code == 0
    decoded = counted(store, "decode", lambda data, path: path)
    read, grids = counted(status, "read"), counted(grid, "_read", lambda path, changed: path)
    assert here("plan", *asked).code == 0
    assert len(decoded) == len(store.Store(tmp_path).ids()) == 1
    assert set(decoded.values()) == {1}
    assert not read
    assert {path.parent.name for path in grids} == {"star_pfl"}


def test_a_cell_that_somebody_computes_is_called_running(here: Here, tmp_path: Path) -> None:
    asked = ("plan", "--artefact", "star-pfl/fig1", "--results", tmp_path)
    (line, *_) = json.loads(here(*asked, "--json").out)["cells"]
    with locks.claim(store.Store(tmp_path), line["id"]):
        facts = json.loads(here(*asked, "--json").out)
        shown = here(*asked).out
    assert {each["status"] for each in facts["cells"] if each["id"] == line["id"]} == {"running"}
    assert "running" in shown.splitlines()[0]


def test_the_cheapest_comes_first(here: Here, tmp_path: Path) -> None:
    told = here("plan", "--paper", "fedpurin", "--results", tmp_path / "r", "--json")
    seconds = [line["seconds"] for line in json.loads(told.out)["cells"]]
    assert len(set(seconds)) > 1
    assert seconds == sorted(seconds)
