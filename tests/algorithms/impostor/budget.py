"""How often the host waits for the GPU in a round of every method, and how often data travel:
`python -m tests.algorithms.impostor.budget` counts anew and writes `budget.csv`.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from repfl.algorithms.core.method import methods
from tests.algorithms.impostor.cases import LATE, WAYS, Seen, seen

TABLE = Path(__file__).with_suffix(".csv")
SHORT = ("lanes", "stack")
HEAD = ("method", "way", "waits in training", "waits in scoring", "other waits", "copies")


@cache
def once(name: str, way: str) -> Seen:
    """A method in one way, run once however many tests look at it."""
    return seen(name, **WAYS[way])


def counted(found: Seen) -> tuple[int, int, int, int]:
    """Waits while training and scoring, all others, and copies, in a round like any later one."""
    report = found.report
    train, score = (report.total("waits", LATE, phase) for phase in ("train", "score"))
    rest = report.total("waits", LATE) - train - score
    return train, score, rest, report.total("copies", LATE)


def held() -> dict[tuple[str, str], tuple[int, ...]]:
    """The table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {(name, way): tuple(map(int, numbers)) for name, way, *numbers in rows}


def main() -> None:
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(HEAD)
        for name in sorted(methods()):
            for way in SHORT:
                out.writerow((name, way, *counted(once(name, way))))


if __name__ == "__main__":
    main()
