"""One experiment for several suites. Imports nothing of ours, since other suites' processes import
it.
"""

from __future__ import annotations

from dataclasses import dataclass

COMMITS = {
    "PFLlib": ("TsingZ0/PFLlib", "d832e76", "system"),
    "FL-bench": ("KarhouTam/FL-bench", "06e658b", "src", "data/utils"),
}
"""Whose code is beside ours: repository, commit, and what of it is needed."""
METHODS = ("fedavg", "fedrep", "ditto")
CLASSES = 10


@dataclass(frozen=True)
class Setting:
    """cnn4 on clients of whole batches; every client holds its own mixture of classes."""

    clients: int = 100
    train: int = 96
    test: int = 96
    rounds: int = 5
    epochs: int = 5
    batch: int = 32
    lr: float = 0.05
    participation: float = 0.1
