"""Randomness without global state: every draw has an address and depends on nothing else."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


def generator(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """A fresh counter-based generator; the same address gives the same draws in every process and
    order.
    """
    name = ":".join([str(seed), purpose, *map(str, address)])
    return np.random.Generator(
        np.random.Philox(
            key=int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "little")
        )
    )
