"""Invented evidence for FedSelect: masks of the right size, and traffic that follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from repfl.bench.grid.planned import Planned
from repfl.paper_tables.fedselect.overlap import PAIRS
from tests.paper_tables.planned import Invented, Paper

SIZE = 4000
CLASSES = ((0, 1), (0, 1), (2, 3), (2, 3), (4, 5), (4, 5), (6, 7), (6, 7), (8, 9), (8, 9))
"""Two clients of every pair, so who is alike is known."""


def share(item: Planned) -> float:
    """The personal share that a run ends with."""
    if item.cell.method != "fedselect" or item.cell.hp.select == "layer":
        return 0.0
    limit = float(item.cell.hp.limit)
    return max(0.25, limit) if item.cell.hp.mode == "code" or limit > 0 else 0.0


class Records(Invented):
    """The notes and masks of FedSelect's runs."""

    def summary(self, item: Planned) -> dict[str, Any]:
        return {"notes": {"personal": share(item)}}

    def noted(self, item: Planned, round_: int) -> dict[str, float]:
        kept = share(item) if round_ > 2 else 0.0
        return {
            "note/personal": kept,
            "traffic/up_values": 4 * SIZE * (1 - kept),
            "traffic/up_codes": SIZE / 8,
        }

    def diagnostics(self, item: Planned) -> dict[str, np.ndarray]:
        if "mask" not in item.cell.recipe.evaluation.tallies:
            return {}
        counts = np.zeros((10, 10), dtype=np.int64)
        mask = np.zeros((10, SIZE + 10), dtype=np.uint16)
        owned = PAIRS if item.scale == "paper" else CLASSES
        for client, classes in enumerate(owned):
            counts[client, list(classes)] = 5
            start, length = client // 2 * 100, int(share(item) * SIZE)
            mask[client, (start + np.arange(length)) % SIZE] = 3
        mask[:, SIZE:] = 9
        layout = {
            "names": np.array(["fc.weight", "bn.mean"]),
            "starts": np.array([0, SIZE]),
            "stops": np.array([SIZE, SIZE + 10]),
        }
        return {
            "mask": mask[::-1],
            "class_counts": counts[::-1],
            **{f"layout/{name}": values for name, values in layout.items()},
        }


PAPER = Paper("fedselect", Records)
evidence, make, table = PAPER.evidence, PAPER.make, PAPER.table
