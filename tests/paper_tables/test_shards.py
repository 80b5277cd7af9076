"""Every planned recipe that deals blocks of classes can be dealt to its clients, on labels as
numerous as the dataset's.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from repfl.bench.grid.grid import SCALES, files, read
from repfl.datasets.core import registry
from repfl.datasets.core.partition import Pool, partition, resolve
from repfl.datasets.core.recipe import Recipe

BY_BLOCKS = {(paper, scale) for paper in ("fedselect", "star-pfl") for scale in SCALES}
BY_BLOCKS.add(("pfeddst", "desk"))


def by_blocks(paper: str, scale: str) -> dict[str, Recipe]:
    """The planned recipes of a paper at a scale whose rule is class-shards."""
    grid = read(files()[paper])
    names = {
        column.recipe
        for artefact in grid.file.artefacts
        for cells in grid.cells(artefact, scale)
        for column in cells.columns
    }
    recipes = {name: grid.recipe(name, scale) for name in sorted(names)}
    return {name: one for name, one in recipes.items() if one.partition.rule == "class-shards"}


@cache
def labels_of(dataset: str) -> Pool:
    """The splits and class counts of a dataset; counts that are not published are even."""
    known = registry.get(dataset)
    classes, total = len(known.classes), sum(known.splits.values())
    if known.groups:  # every photograph under every corruption
        groups, photos = np.divmod(np.arange(total), total // len(known.groups))
        whole = {"all": range(total)}
        return Pool(photos % classes, whole, classes, groups, known.groups, photos)
    labels, splits, start = [], {}, 0
    for split, size in known.splits.items():
        splits[split] = range(start, start := start + size)
        counts = known.counts[split] if known.counts else None
        even = np.arange(size) % classes
        labels.append(even if counts is None else np.repeat(np.arange(classes), counts))
    return Pool(np.concatenate(labels), splits, classes)


PLANNED = [(paper, scale) for paper in files() for scale in read(files()[paper]).file.scales]


@pytest.mark.parametrize(("paper", "scale"), PLANNED)
def test_blocks_of_classes_fit_the_clients_of_every_planned_recipe(paper: str, scale: str) -> None:
    recipes = by_blocks(paper, scale)
    assert recipes or (paper, scale) not in BY_BLOCKS
    for name, recipe in recipes.items():
        pool, options = labels_of(recipe.dataset), resolve(recipe.partition)
        assert recipe.clients * options["classes"] % pool.classes == 0, f"{paper} {name} at {scale}"
        shares = partition(pool, recipe, seed=0)
        apart = shares.val or [()] * len(shares.train)
        train = [[*one, *other] for one, other in zip(shares.train, apart, strict=True)]
        for part, size in ((train, options["train"]), (shares.test, options["test"])):
            # slices start one sample later each, so that whole blocks lose some
            most, held = options["classes"] * size, [len(samples) for samples in part]
            assert most - options["classes"] < min(held), f"{paper} {name} at {scale}"
            assert max(held) <= most, f"{paper} {name} at {scale}"
