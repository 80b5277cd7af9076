"""Checkpoints are used when they are whole and of the same computation, and ignored otherwise."""

from __future__ import annotations

import pytest
import torch

from repfl.bench.store import checkpoint
from repfl.bench.store.store import Store

CELL, FACTS = "b" * 64, {"cell": "b" * 64, "engine": "x"}


def tensors() -> dict[str, torch.Tensor]:
    base = torch.arange(6.0)
    return {"a": base[:3], "b": base.expand(2, 6), "none": torch.zeros(0, 4), "n": torch.tensor(3)}


def test_what_is_saved_is_loaded(store: Store) -> None:
    checkpoint.save(store, CELL, tensors(), FACTS)
    found = checkpoint.load(store, CELL, FACTS)
    assert found is not None
    assert found.keys() == tensors().keys()
    assert all(torch.equal(found[name], value) for name, value in tensors().items())
    checkpoint.drop(store, CELL)
    assert checkpoint.load(store, CELL, FACTS) is None


@pytest.mark.parametrize("facts", [{**FACTS, "engine": "y"}, {**FACTS, "chunk": "2"}])
def test_other_circumstances_start_again(store: Store, facts: dict[str, str]) -> None:
    checkpoint.save(store, CELL, tensors(), FACTS)
    assert checkpoint.load(store, CELL, facts) is None


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_checkpoint_starts_again(store: Store, damage: str) -> None:
    checkpoint.save(store, CELL, tensors(), FACTS)
    path = checkpoint.path_of(store, CELL)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-2] ^= 4
    path.write_bytes({"truncate": data[:-5], "flip": data, "empty": b""}[damage])
    assert checkpoint.load(store, CELL, FACTS) is None
