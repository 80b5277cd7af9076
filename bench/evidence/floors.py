"""The committed floors of a paper's recipes: what a constant prediction reaches at the paper scale.

`bench/pages/floors.py` computes them.
"""

from __future__ import annotations

import csv
from typing import Any

from repfl.bench.evidence.measured import folder_of

FIELDS = ("recipe", "seed", "mean", "pooled", "global_mean", "global_pooled", "partition")
"""Of every client's own constant, and of the one constant for all clients; averaged over clients,
and pooled.
"""


def read(paper: str) -> list[dict[str, Any]]:
    """The committed floors of a paper."""
    path = folder_of(paper) / "floors.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def one_for_all(paper: str) -> dict[tuple[str, int], dict[str, float]]:
    """What the global constant reaches, by recipe and seed of the partition, as far as it is
    known.
    """
    return {
        (row["recipe"], int(row["seed"])): {
            "clients": float(row["global_mean"]),
            "pooled": float(row["global_pooled"]),
        }
        for row in read(paper)
        if row.get("global_mean")
    }
