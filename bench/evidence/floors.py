"""The accuracy of constant predictions, by recipe: published beside each grid in `floors.csv`.

A client's own constant is its most frequent training class; the global one is the most frequent
class of all clients' training images. Both follow from the paper's partition without training.
`python -m repfl.bench.evidence.floors` computes them for all recipes whose data are here.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from repfl.bench.evidence.measured import folder_of
from repfl.bench.grid import grid as grids

if TYPE_CHECKING:
    import numpy as np

    from repfl.datasets.core.partition import ClientSplits

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


def measure(paper: str) -> list[dict[str, Any]]:
    """The floors of a paper's own recipes at the paper scale, as far as their data are here."""
    import numpy as np

    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.errors import DataError
    from repfl.datasets.core.partition import majority_accuracy, partition

    grid, found = grids.read(grids.files()[paper]), []
    for name in grid.file.recipes:
        recipe = grid.recipe(name, "paper")
        if recipe.dataset == "digits":
            continue
        try:
            prepared = open_dataset(recipe.dataset)
        except DataError:
            continue
        seeds = grid.file.scales["paper"].seeds
        for seed in dict.fromkeys(recipe.partition.seed_in(seed) for seed in seeds):
            shares = partition(prepared, recipe, seed)
            labels = np.asarray(prepared.labels)
            told = (
                f"{share:.6f}"
                for share in (*majority_accuracy(shares, labels), *global_majority(shares, labels))
            )
            found.append(dict(zip(FIELDS, (name, seed, *told, shares.digest), strict=True)))
    return found


def global_majority(shares: ClientSplits, labels: np.ndarray) -> tuple[float, float]:
    """Accuracy of always predicting the most frequent train class of all clients together (the
    lowest of equals): mean over clients, and pooled.
    """
    import numpy as np

    favourite = np.bincount(np.concatenate([labels[train] for train in shares.train])).argmax()
    right = np.array([int((labels[test] == favourite).sum()) for test in shares.test])
    total = np.array([len(test) for test in shares.test])
    return float((right / total).mean()), float(right.sum() / total.sum())


def keep() -> None:
    """Compute and write the floors of all papers; those whose data are absent stay as they are."""
    for paper in grids.files():
        measured = measure(paper)
        known = {(row["recipe"], str(row["seed"])): row for row in [*read(paper), *measured]}
        if known:
            path = folder_of(paper) / "floors.csv"
            path.parent.mkdir(exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(known[key] for key in sorted(known))


if __name__ == "__main__":
    keep()
