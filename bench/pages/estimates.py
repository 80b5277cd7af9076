"""What estimates of costs are worth, by cells that the fit has not seen: a part of SCALING.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repfl.bench.running import pace

PAGE = Path(__file__).resolve().parents[1] / "SCALING.md"


def block() -> str:
    """A line per machine whose cells told their processor time."""
    found: list[dict[str, Any]] = pace.stored()["unseen"]
    lines = [
        "| machine | cells | time over estimate, in the middle | within a factor of 1.3 | the same,"
        " with one factor for the machine |",
        f"|{'---|' * 5}",
    ]
    for row in found:
        kind = "smoke" if row["cells"] == "smoke" else "desk, paper and board"
        lines.append(
            f"| {row['machine']} | {row['count']}, {kind} | {row['times']:.2f} |"
            f" {100 * row['within']:.0f} % | {100 * row['then within']:.0f} % |"
        )
    return "\n".join(lines) + "\n"
