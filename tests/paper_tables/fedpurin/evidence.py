"""Invented evidence for FedPURIN: traffic in the proportions of real runs, and mask tallies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from repfl.bench.grid.planned import Planned
from tests.paper_tables.planned import Invented, Paper

SIZES = {"tiny-bn": 9962, "resnet8": 1235274, "resnet10": 4957092}
SHAPES = {
    "conv1.weight": (8, 1, 3, 3),
    "bn1.weight": (8,),
    "conv2.weight": (16, 8, 3, 3),
    "fc1.weight": (32, 256),
    "fc2.weight": (10, 32),
}


class Records(Invented):
    """Adds traffic, and the mask tallies of a small net with the tensors of a real one."""

    def summary(self, item: Planned) -> dict[str, Any]:
        return {"parameters": SIZES[item.cell.recipe.model]}

    def shown(self, item: Planned) -> Iterable[int]:
        """Rounds before and after β, which bytes depend on."""
        last = item.cell.rounds
        return range(1, last + 1, max(1, last // 20))

    def noted(self, item: Planned, round_: int) -> dict[str, float]:
        size, clients = SIZES[item.cell.recipe.model], item.cell.recipe.clients
        late = item.cell.method != "fedavg" and round_ > item.cell.options.get("beta", 0)
        masked = item.cell.method == "fedpurin"
        up, down = size // 2 if masked else size, size // (6 if masked else 2) if late else size
        if masked:  # so that every round counts
            up, down = up - 29 * round_, down - 31 * round_
        code = 0 if item.cell.method == "fedavg" else size // 8
        lines = {
            "up_values": 4 * up,
            "up_codes": code,
            "down_values": 4 * down,
            "down_codes": code if masked else 0,
        }
        return {f"traffic/{name}": float(value * clients) for name, value in lines.items()}

    def diagnostics(self, item: Planned) -> dict[str, np.ndarray]:
        stops = np.cumsum([int(np.prod(s)) for s in SHAPES.values()])
        starts = np.concatenate([[0], stops[:-1]])
        rng = np.random.Generator(np.random.Philox(7))
        chances = rng.uniform(0.1, 0.9, size=(1, stops[-1]))
        mask = rng.binomial(
            item.cell.rounds, chances, size=(item.cell.recipe.clients, stops[-1])
        ).astype(np.uint16)
        mask[:, starts[1] : stops[1]] = 0
        return {
            "mask": mask,
            "server": mask.max(0),
            "layout/names": np.array(list(SHAPES)),
            "layout/starts": starts,
            "layout/stops": stops,
            "layout/shapes": np.array(["x".join(map(str, s)) for s in SHAPES.values()]),
        }


PAPER = Paper("fedpurin", Records)
evidence, make, table = PAPER.evidence, PAPER.make, PAPER.table
