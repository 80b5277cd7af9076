"""Randomness without global state: every draw has an address.

A stream is named by (seed, purpose, round, client, ...) and by nothing else, so the order of clients, the chunk, the number of workers, the
device and a resume change no draw. Streams are drawn on the CPU.
"""

from __future__ import annotations

import random
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor


class Streams:
    """All random streams of one cell."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def at(self, purpose: str, *address: int) -> np.random.Generator:
        """A fresh generator at the given address; the same address always gives the same draws."""
        name = ":".join([str(self.seed), purpose, *map(str, address)])
        return np.random.Generator(np.random.Philox(key=int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "little")))

    def permutation(self, n: int, purpose: str, *address: int) -> Tensor:
        """A random order of n things  [n]."""
        return torch.from_numpy(self.at(purpose, *address).permutation(n))


def cohort(streams: Streams, clients: int, size: int, round_: int) -> Tensor:
    """Who takes part in a round: `size` of `clients`, ascending  [K]."""
    if size == clients:
        return torch.arange(clients)
    return torch.from_numpy(np.sort(streams.at("cohort", round_).choice(clients, size, replace=False)))


def flbench_cohort(seed: int, clients: int, size: int, round_: int) -> Tensor:
    """FL-bench's participants: one Python generator, seeded once, samples the rounds one after another  [K]."""
    stream = random.Random(seed)
    for _ in range(round_ - 1):
        stream.sample(range(clients), size)
    return torch.tensor(sorted(stream.sample(range(clients), size)))
