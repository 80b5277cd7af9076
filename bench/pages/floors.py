"""The floors of a recipe: what a constant prediction reaches.

A client's own constant is its most frequent training class; the global one, which one model for all
clients is held against, is the most frequent class of all their training images. Both need the
paper's partition and no training, so they are known at the paper scale before anything has run
there. `measured/floors.csv` beside each grid keeps them.
"""

from __future__ import annotations

import csv
from statistics import fmean
from typing import TYPE_CHECKING, Any

from repfl.bench.evidence.floors import FIELDS, read
from repfl.bench.evidence.measured import folder_of
from repfl.bench.grid import grid as grids

if TYPE_CHECKING:
    import numpy as np

    from repfl.datasets.core.partition import ClientSplits


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
                for share in (*majority_accuracy(shares, labels), *one_for_all(shares, labels))
            )
            found.append(dict(zip(FIELDS, (name, seed, *told, shares.digest), strict=True)))
    return found


def one_for_all(shares: ClientSplits, labels: np.ndarray) -> tuple[float, float]:
    """Accuracy of always predicting the most frequent train class of all clients together (the
    lowest of equals): mean over clients, and pooled.
    """
    import numpy as np

    favourite = np.bincount(np.concatenate([labels[train] for train in shares.train])).argmax()
    right = np.array([int((labels[test] == favourite).sum()) for test in shares.test])
    total = np.array([len(test) for test in shares.test])
    return float((right / total).mean()), float(right.sum() / total.sum())


def keep() -> None:
    """Compute and write the floors of all papers; what cannot be computed here stays as it is."""
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


def by_recipe(paper: str, *, one_model: bool = False) -> dict[str, float]:
    """Floor in percent by recipe, over the seeds, averaged as the recipe reports: of the clients'
    own constants, or of the global one where that is known.
    """
    grid = grids.read(grids.files()[paper])
    found: dict[str, list[float]] = {}
    for row in read(paper):
        pooled = grid.recipe(row["recipe"], "paper").evaluation.average == "pooled"
        name = f"{'global_' if one_model else ''}{'pooled' if pooled else 'mean'}"
        if row.get(name):
            found.setdefault(row["recipe"], []).append(100 * float(row[name]))
    return {recipe: fmean(values) for recipe, values in found.items()}
