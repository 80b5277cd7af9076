"""The floor of a recipe: the accuracy of always predicting a client's most frequent training class.

It needs the paper's partition and no training, so it is known at the paper scale before anything
has run there. `measured/floors.csv` beside each grid keeps it.
"""

from __future__ import annotations

import csv
from statistics import fmean
from typing import Any

from repfl.bench.cells import grid as grids
from repfl.bench.evidence.measured import folder_of

FIELDS = ("recipe", "seed", "mean", "pooled", "partition")


def measure(paper: str) -> list[dict[str, Any]]:
    """The floors of a paper's own recipes at the paper scale, as far as their data are here."""
    import numpy as np

    from repfl.datasets.core.errors import DataError
    from repfl.datasets.core.partition import deal, floor
    from repfl.datasets.core.store import open_dataset

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
            shares = deal(prepared, recipe, seed)
            mean, pooled = floor(shares, np.asarray(prepared.labels))
            row = (name, seed, f"{mean:.6f}", f"{pooled:.6f}", shares.digest)
            found.append(dict(zip(FIELDS, row, strict=True)))
    return found


def keep() -> None:
    """Compute and write the floors of all papers; what cannot be computed here stays as it is."""
    for paper in grids.files():
        measured = measure(paper)
        known = {(row["recipe"], str(row["seed"])): row for row in [*read(paper), *measured]}
        if known:
            path = folder_of(paper) / "floors.csv"
            path.parent.mkdir(exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(known[key] for key in sorted(known))


def read(paper: str) -> list[dict[str, Any]]:
    """The committed floors of a paper."""
    path = folder_of(paper) / "floors.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def by_recipe(paper: str) -> dict[str, float]:
    """Floor in percent by recipe, over the seeds, averaged as the recipe reports."""
    grid = grids.read(grids.files()[paper])
    found: dict[str, list[float]] = {}
    for row in read(paper):
        average = (
            "pooled"
            if grid.recipe(row["recipe"], "paper").evaluation.average == "pooled"
            else "mean"
        )
        found.setdefault(row["recipe"], []).append(100 * float(row[average]))
    return {recipe: fmean(values) for recipe, values in found.items()}
