"""Invented evidence for PFedDST: bytes, and what chosen peers' models are worth."""

from __future__ import annotations

from repfl.bench.grid.planned import Planned
from tests.paper_tables.planned import Invented, Paper, number

MODEL = 11_173_962


class Records(Invented):
    """Bytes, and what chosen peers' models are worth where that is asked for; peers by header are
    worth more.
    """

    def noted(self, item: Planned, round_: int) -> dict[str, float]:
        found = {
            "traffic/down_values": 4.0 * MODEL * item.cell.recipe.clients,
            "traffic/down_codes": 0.0,
        }
        if "peers" in item.cell.recipe.evaluation.tallies:
            base = 0.6 if item.row == "header" else 0.3
            found["note/peers/own"] = 0.95
            found |= {
                f"note/peers/{place}": base + 0.2 * number(item.row, round_, place)
                for place in range(item.cell.hp.degree)
            }
        return found


PAPER = Paper("pfeddst", Records)
evidence, make, table = PAPER.evidence, PAPER.make, PAPER.table
