"""Invented evidence for FedOBP: true model sizes, masks of the right size, and traffic that follows
from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from repfl.bench.grid.planned import Planned
from repfl.datasets.core import registry
from tests.paper_tables.planned import Invented, Paper, accuracy

TINY = 2746
LAYERS = (("conv1", 0.3), ("conv2", 0.05), ("fc1", 0.05), ("classifier", 0.6))


def size(recipe: Mapping[str, Any]) -> int:
    """Parameters of the model that a cell trains."""
    if recipe.model == "tiny":
        return TINY
    known = registry.get(recipe.dataset)
    height, _, depth = known.shape
    channels, side, _ = recipe.input or (depth, height, height)
    classes = recipe.classes or len(known.classes)
    last = ((side - 4) // 2 - 4) // 2
    return (
        25 * 32 * channels + 32 + 25 * 32 * 64 + 64 + (64 * last * last + 1) * 512 + 513 * classes
    )


def personal(item: Planned) -> int:
    """Parameters that a quantile keeps at home."""
    return ceil(size(item.cell.recipe) * (1 - getattr(item.cell.hp, "q", 1.0)) - 1e-6)


class Records(Invented):
    """What FedOBP's artefacts read beyond accuracies."""

    def summary(self, item: Planned) -> dict[str, Any]:
        recipe = item.cell.recipe
        whole, own = size(recipe), personal(item)
        people = round(recipe.clients * recipe.participation) * item.cell.rounds
        sent = {
            "up_values": 4 * whole,
            "up_codes": 0,
            "down_values": 4 * (whole - own),
            "down_codes": min(whole // 8, 4 * own),
        }
        return {
            "parameters": whole,
            "notes": {"personal": float(own)},
            "traffic": {name: value * people for name, value in sent.items()},
        }

    def noted(self, item: Planned, round_: int) -> dict[str, float]:
        """Accuracies of cohort and everybody, and the layers of personal entries."""
        rise = accuracy(item) * (1 - 0.5 / round_)
        own = float(personal(item)) if round_ > 1 else 0.0
        layers = {f"note/personal/{layer}": own * share for layer, share in LAYERS}
        return {"start/pooled": rise, "post_agg/pooled": rise, "note/personal": own} | layers


PAPER = Paper("fedobp", Records)
evidence, make, table = PAPER.evidence, PAPER.make, PAPER.table
