"""Randomness without global state: every draw has an address.

A stream is named by (seed, purpose, round, client, ...) and by nothing else, so the order of
clients, the chunk, the number of workers, the device and a resume change no draw. Streams are drawn
on the CPU.
"""

from __future__ import annotations

import random
from functools import lru_cache
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
        return np.random.Generator(
            np.random.Philox(
                key=int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "little")
            )
        )

    def permutation(self, n: int, purpose: str, *address: int) -> Tensor:
        """A random order of n things  [n]."""
        return torch.from_numpy(self.at(purpose, *address).permutation(n))


def cohort(streams: Streams, clients: int, size: int, round_: int) -> Tensor:
    """Who takes part in a round: `size` of `clients`, ascending  [K]."""
    if size == clients:
        return torch.arange(clients)
    return torch.from_numpy(
        np.sort(streams.at("cohort", round_).choice(clients, size, replace=False))
    )


def flbench_cohort(seed: int, clients: int, size: int, round_: int) -> Tensor:
    """FL-bench's participants in the order of its draw: one Python generator, seeded once, samples
    round after round  [K].
    """
    stream, drawn = _replayed(seed, clients, size)
    while len(drawn) < round_:
        drawn.append(stream.sample(range(clients), size))
    return torch.tensor(drawn[round_ - 1])


@lru_cache(maxsize=8)
def _replayed(seed: int, clients: int, size: int) -> tuple[random.Random, list[list[int]]]:
    """FL-bench's generator and what it has drawn so far."""
    return random.Random(seed), []


# -- random numbers by the million -----------------------------------------------------------------

GOLDEN, FIRST_MIX, SECOND_MIX = (
    value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def splitmix64(keys: Tensor, first: int, count: int) -> Tensor:
    """Return numbers `first` to `first + count - 1` of the SplitMix64 stream of every key [K], as
    int64  [K, count].

    For random masks as large as models: integer arithmetic gives the same numbers on every device.
    """
    z = keys[:, None] + GOLDEN * torch.arange(first + 1, first + count + 1, device=keys.device)
    z.bitwise_xor_(_shifted(z, 30)).mul_(FIRST_MIX)
    z.bitwise_xor_(_shifted(z, 27)).mul_(SECOND_MIX)
    return z.bitwise_xor_(_shifted(z, 31))


def _shifted(z: Tensor, places: int) -> Tensor:
    """Logical shift to the right; that of signed integers would repeat the sign."""
    return (z >> places).bitwise_and_((1 << (64 - places)) - 1)
