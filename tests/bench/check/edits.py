"""Mistakes and refactorings written by hand: one replacement each, and the cells of the gate that
compute what it touches.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """One replacement of a text that occurs once."""

    file: str
    old: str
    new: str
    method: str
    recipes: str
    """The gate's recipes to compute, separated by spaces."""

    @property
    def what(self) -> str:
        return f"{self.file}: {self.old} -> {self.new}"

    def applied(self, clone: Path) -> str:
        """Return the whole file with the edit."""
        text = (clone / self.file).read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (
            f"{self.what}: the text to replace occurs {text.count(self.old)} times"
        )
        return text.replace(self.old, self.new)


CORE, ENGINE = "algorithms/core", "algorithms/engine"
FEDERATION, NETWORK, RUN = f"{CORE}/federation.py", f"{CORE}/network.py", f"{CORE}/run.py"
TOPOLOGY = f"{CORE}/topology.py"
BATCHES, CLIENT, DATA = f"{ENGINE}/batches.py", f"{ENGINE}/client.py", f"{ENGINE}/client_data.py"
EVALUATE, TRAINING = f"{ENGINE}/evaluate.py", f"{ENGINE}/training.py"
PARTIAL = f"{CORE}/partial_averaging.py"
METRICS, CLIENTS = "bench/run/metrics.py", "bench/run/clients.py"
PRODUCTS = "bench/run/products.py"
PARTITIONS, AUGMENT = "datasets/partitions", "datasets/core/augment.py"
