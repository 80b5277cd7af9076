"""Checkpoints are used when they are whole and of the same computation, and ignored otherwise."""

from __future__ import annotations

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


def test_other_circumstances_start_again(store: Store) -> None:
    checkpoint.save(store, CELL, tensors(), FACTS)
    for facts in ({**FACTS, "engine": "y"}, {**FACTS, "chunk": "2"}):
        assert checkpoint.load(store, CELL, facts) is None


def test_a_damaged_checkpoint_starts_again(store: Store) -> None:
    checkpoint.save(store, CELL, tensors(), FACTS)
    path = checkpoint.path_of(store, CELL)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-2] ^= 4
    for data in (whole[:-5], bytes(flipped), b""):
        path.write_bytes(data)
        assert checkpoint.load(store, CELL, FACTS) is None
