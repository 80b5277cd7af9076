"""Pictures of how a data set is split over clients. A rule sees labels alone, and class counts are
published, so no data are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from repfl.bench.grid.planned import Planned
from repfl.bench.grid.recipes import recipe_from
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import ClientSplits, Pool, partition
from repfl.datasets.core.registry import SPLITS, get, names

SHOWN, EACH = 6, 2
"""Pictures of one data set, and of one paper among them."""
LEVELS = 5
WIDTH, HEIGHT = 700, 130


def pictures(name: str, planned: Iterable[Planned]) -> list[dict[str, Any]]:
    """Return a picture for each of the first splits that full-scale runs use."""
    pool = _pool(name)
    found: dict[str, dict[str, Any]] = {}
    for item in planned:
        recipe: Mapping[str, Any] = item.cell.recipe
        key = json.dumps([recipe["partition"], recipe["clients"]], sort_keys=True)
        if pool is None or len(found) == SHOWN:
            break
        mine = sum(told["paper"] == item.paper for told in found.values())
        if recipe["dataset"] != name or item.scale != "paper" or key in found or mine == EACH:
            continue
        try:
            shares = partition(pool, recipe_from(dict(recipe), item.key), item.cell.seed)
        except DataError:
            continue
        options = [(k, v) for k, v in recipe["partition"]["options"].items() if v is not None]
        rule = ", ".join([recipe["partition"]["rule"], *(f"{k} = {v}" for k, v in options)])
        found[key] = {
            "paper": item.paper,
            "title": f"{item.paper}: {recipe['clients']} clients, {rule}",
            "svg": _drawn(shares, pool),
            "told": _sizes(shares, pool, item.cell.seed),
        }
    return list(found.values())


def _pool(name: str) -> Pool | None:
    """Return the labels of a data set in canonical order; None if its class counts are unknown."""
    counts = get(name).counts if name in names() else None
    if not counts:
        return None
    labels, splits, at = [], {}, 0
    for split in (split for split in SPLITS if split in counts):
        labels.append(np.repeat(np.arange(len(counts[split])), counts[split]))
        splits[split] = range(at, at + len(labels[-1]))
        at += len(labels[-1])
    return Pool(np.concatenate(labels), splits, len(get(name).classes))


def _drawn(shares: ClientSplits, pool: Pool) -> Markup:
    """Classes down, clients across; the darker, the larger the class's share of the client."""
    table = np.stack([np.bincount(pool.labels[i], minlength=pool.classes) for i in shares.train])
    share = table / table.sum(axis=1, keepdims=True).clip(min=1)  # [N, C]
    level = np.ceil(share * LEVELS).astype(int)
    paths = [
        '<path fill="currentColor" fill-opacity="{:.2f}" d="{}"/>'.format(
            each / LEVELS,
            "".join(f"M{x} {y}h1v1h-1z" for x, y in np.argwhere(level == each).tolist()),
        )
        for each in range(1, LEVELS + 1)
    ]
    clients, classes = level.shape
    return Markup(
        f'<svg viewBox="0 0 {clients} {classes}" width="{WIDTH}" height="{HEIGHT}" role="img"'
        ' preserveAspectRatio="none" class="split" shape-rendering="crispEdges"'
        f' aria-label="Share of each class in each client">{"".join(paths)}</svg>'
    )


def _sizes(shares: ClientSplits, pool: Pool, seed: int) -> str:
    sizes = [len(index) for index in shares.train]
    classes = [len(np.unique(pool.labels[index])) for index in shares.train]
    return (
        "Clients across, classes down; the stronger the colour, the larger the class's share."
        f" Training images per client: {min(sizes):,} to {max(sizes):,}; classes per client:"
        f" {min(classes)} to {max(classes)} (seed {seed})."
    )
