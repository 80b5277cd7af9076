"""Our methods against the code that their authors published, on the same batches.

That code is no part of this repository, and no line of it is copied here: tests import it from
clones, at the commits they name. `nox -s references` makes the clones and runs the tests; for
clones elsewhere, `REPFL_REFERENCES` names their folder, which holds `owner+name` for every
`owner/name`.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.references.clones import extract, place
from tests.references.flbench import bench
from tests.references.pfllib import pfllib
from tests.references.stand_ins import module

__all__ = ["bench", "pfllib"]
Get = Callable[..., Path]


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Get:
    """A folder with the files of a public repository at a commit:
    `reference(repository, commit, "folder", "file.py")`.
    """
    held: dict[tuple[str, ...], Path] = {}

    def get(repository: str, commit: str, *paths: str) -> Path:
        clones = os.environ.get("REPFL_REFERENCES")
        clone = place(Path(clones or "."), repository)
        needs = f"needs a clone of {repository} at $REPFL_REFERENCES/{clone.name}"
        if not clones:
            pytest.skip(needs)
        if not clone.exists():
            pytest.fail(needs)
        if (repository, commit, *paths) not in held:
            folder = tmp_path_factory.mktemp(clone.name)
            held[repository, commit, *paths] = extract(clone, commit, folder, *paths)
        return held[repository, commit, *paths]

    return get


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Published code computes in PyTorch's default type; in float64 a difference is a difference of
    rules.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def borrowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make a folder importable for one test: `borrowed(folder, {"hydra": {"main": ...}})`, with
    stand-ins for what its files import.
    """
    folders: list[str] = []

    def borrow(folder: Path, stubs: dict[str, dict[str, Any]] | None = None) -> None:
        folders.append(str(folder))
        monkeypatch.syspath_prepend(folder)
        for name, contents in (stubs or {}).items():
            stub = module(name, contents)
            monkeypatch.setitem(sys.modules, name, stub)
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                monkeypatch.setattr(sys.modules[parent], child, stub, raising=False)

    yield borrow
    for name in [
        name for name, held in sys.modules.items() if any(lies(held, folder) for folder in folders)
    ]:
        del sys.modules[name]  # the next repository has modules of the same names


def lies(module: types.ModuleType, folder: str) -> bool:
    """Whether a module was imported from a folder."""
    places = [vars(module).get("__file__") or "", *vars(module).get("__path__", ())]
    return any(place.startswith(folder) for place in places)
