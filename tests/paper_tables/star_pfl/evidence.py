"""Invented evidence for Star-PFL: bytes of the true model, shares of active weights, traces."""

from __future__ import annotations

from repfl.bench.grid.planned import Planned
from repfl.paper_tables.star_pfl import costs
from tests.paper_tables.planned import Invented, Paper, number

LEARNABLE, STATISTICS, NORM = 44_555, 44, 44
ENTRIES = ("conv1.weight[25]", "conv1.weight[50]", "fc2.weight[100]")


class Records(Invented):
    """Bytes of the true model, shares of active weights, and traces where they are asked for."""

    def noted(self, item: Planned, round_: int) -> dict[str, float]:
        method, clients = item.cell.method, item.cell.recipe.clients
        size = {"local": 0, "fedbn": LEARNABLE - NORM, "fedap": LEARNABLE - NORM}.get(
            method, LEARNABLE + STATISTICS
        )
        masked = method in ("star-pfl", "lotteryfl")
        up = 4 * size * clients * (0.66 if method == "star-pfl" else 0.68 if masked else 1)
        extra = 96 * clients if method == "fedap" and round_ == 1 else 0
        found = {"traffic/up_values": up + extra, "traffic/down_values": 4.0 * size * clients}
        found |= {
            f"traffic/{line}_codes": (LEARNABLE // 8 if masked else 0) * float(clients)
            for line in ("up", "down")
        }
        if masked:
            share = 0.9 if method == "star-pfl" else 0.95
            found |= {f"note/active/{name}": share for name in costs.MACS}
        if "trace" in item.cell.recipe.evaluation.tallies:
            for client in range(clients):
                label = client % 10
                found[f"note/trace/{client}/label"] = label
                for entry in ENTRIES:
                    drift = 0.01 * round_ * number(label, entry)
                    found[f"note/trace/{client}/{entry}"] = number(entry) - drift
        return found


PAPER = Paper("star-pfl", Records)
evidence, make, table = PAPER.evidence, PAPER.make, PAPER.table
