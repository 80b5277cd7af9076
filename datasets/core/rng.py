"""Random generators without global state."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


def generator(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """Return a counter-based generator keyed by its arguments alone."""
    name = ":".join([str(seed), purpose, *map(str, address)])
    digest = blake2b(name.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
