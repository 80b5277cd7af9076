"""Who holds what under a recipe, as a picture and in sentences.

The partitions are computed from published class counts, so a report needs no data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from markupsafe import Markup, escape

from repfl.datasets.core import registry
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import majority_accuracy, partition, published_pool
from repfl.datasets.core.recipe import Recipe


@dataclass(frozen=True)
class Holdings:
    """What the clients of a recipe hold."""

    classes: tuple[str, ...]
    counts: np.ndarray
    """Training samples by client and class  [N, C]."""
    sizes: np.ndarray
    """Training, validation and test samples by client  [N, 3]."""
    copies: np.ndarray
    """The number of clients that hold a sample, by sample."""
    majority: float
    digest: str
    exact: bool
    """Whether the clients are those of the runs; if not, they are another draw of the rule."""

    @property
    def shares(self) -> np.ndarray:
        """The share of each class in a client's training samples  [N, C]."""
        return self.counts / self.counts.sum(axis=1, keepdims=True)


def holdings(recipe: Recipe, seed: int) -> Holdings | None:
    """Return what the clients hold; None if that depends on more than published class counts."""
    dataset = registry.get(recipe.dataset)
    if (pool := published_pool(dataset)) is None:
        return None
    try:
        splits = partition(pool, recipe, seed)
    except DataError:
        return None
    parts = (splits.train, splits.val, splits.test)
    counts = [np.bincount(pool.labels[index], minlength=pool.classes) for index in splits.train]
    each = [np.unique(np.concatenate(client)) for client in zip(*parts, strict=True)]
    return Holdings(
        dataset.classes,
        np.stack(counts),
        np.array([[len(index) for index in part] for part in parts]).T,
        np.bincount(np.concatenate(each), minlength=len(pool.labels)),
        majority_accuracy(splits, pool.labels)[0],
        splits.digest,
        dataset.counts is not None,
    )


# -- in words --------------------------------------------------------------------------------------


def rules(names: Iterable[str]) -> dict[str, list[str]]:
    """Return what partition rules do, in their own paragraphs."""
    from repfl.bench.grid import catalog

    texts = {name: str(catalog.partition_facts(name)["rule"]) for name in names}
    return {
        name: [" ".join(part.split()) for part in text.split("\n\n")]
        for name, text in texts.items()
    }


def dirichlet(used: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return what each Dirichlet rule does by the papers that use it, if there are several."""
    papers: dict[str, list[str]] = {}
    for paper, rule in dict.fromkeys(used):
        if rule.endswith("dirichlet"):
            papers.setdefault(rule, []).append(paper)
    first = {rule: parts[0].partition(": ")[2] for rule, parts in rules(papers).items()}
    several = papers if len(papers) > 1 else {}
    return {" and ".join(names): first[rule] for rule, names in several.items()}


def sentences(recipe: Recipe, held: Holdings, seed: int) -> str:
    """Return what clients hold in words: classes, sizes, overlap, and how skewed it is."""
    train, val, test = held.sizes.T
    purposes = [(train, "training"), (val, "validation"), (test, "testing")]
    parts = ", ".join(f"{_span(n)} for {name}" for n, name in purposes if n.any())
    used, shared = int((held.copies > 0).sum()), int((held.copies > 1).sum())
    by_whom = f"{shared:,} of them by several clients" if shared else "each by one client"
    samples, is_all = f"{len(held.copies):,} samples", used == len(held.copies)
    use = f"All {samples}" if is_all else f"Of all {samples} {used:,}"
    text = (
        f"A client trains on {_span((held.counts > 0).sum(axis=1), median=True)} of"
        f" {len(held.classes)} classes and holds {_span(held.sizes.sum(axis=1), median=True)}"
        f" samples: {parts}. {use} are used, {by_whom}."
        f" Majority class: {100 * held.majority:.1f}\N{NO-BREAK SPACE}%."
    )
    if recipe.newcomers is not None:
        text += f" {recipe.newcomers.count(recipe.clients)} of the clients join after training."
    if not held.exact:
        text += (
            " Only the class counts of all splits together are published: these clients are another"
            " draw of the same rule than the runs'."
        )
    elif recipe.partition.seed is None:
        text += f" Drawn with seed {seed}; other seeds give other clients."
    return text


def _span(values: np.ndarray, median: bool = False) -> str:
    low, high = int(values.min()), int(values.max())
    if low == high:
        return f"{low:,}"
    middle = f" (median {np.median(values):,.1f})".replace(".0)", ")") if median else ""
    return f"{low:,} to {high:,}{middle}"


# -- as a picture ----------------------------------------------------------------------------------

SHADES = {0.05: 0.15, 0.15: 0.32, 0.35: 0.52, 0.65: 0.75, 1.0: 1.0}
"""Opacity of a class by the largest share of a client's training samples that it stands for."""
MAX_ROWS = 20
"""Classes that a picture has a row each for; of more it shows how many a client has."""
MAX_RULED = 60
"""Clients that a picture separates by lines."""
WIDTH, LEFT, TOP, BARS, ROW = 420, 84, 8, 44, 13


def picture(held: Holdings) -> Markup:
    """Return an SVG: samples of each client as bars, and below them its classes."""
    clients, classes = held.counts.shape
    few = classes <= MAX_ROWS
    order = np.lexsort(_by_class(held.counts) if few else [-(held.counts > 0).sum(axis=1)])
    counts, sizes = held.counts[order], held.sizes[order].cumsum(axis=1)
    start, height = TOP + BARS + 6, ROW * classes if few else 2 * BARS
    bottom, column = start + height, (WIDTH - LEFT) / clients
    most = sizes[:, 2].max()
    lower = _matrix(held.shares[order]) if few else _tallies(counts, height)
    names = held.classes if few else ()
    labels = [(TOP + 9, f"{most:,}"), (TOP + 22, "samples")]
    labels += [(start + ROW * k + 10, _short(name)) for k, name in enumerate(names)]
    labels += [] if few else [(start + 9, f"{classes}"), (start + 22, "classes")]
    what = "largest class" if few else "number of classes"
    text = [f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{escape(t)}</text>' for y, t in labels]
    text.append(
        f'<text x="{(WIDTH + LEFT) / 2:g}" y="{bottom + 15}" text-anchor="middle">'
        f"{clients} clients, by {what}</text>"
    )
    ruled = range(1, clients) if clients <= MAX_RULED else ()
    lines = "".join(f"M{k} {TOP}V{bottom}" for k in ruled)
    lines += "".join(f"M0 {start + ROW * k}h{clients}" for k in range(1, len(names)))
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {bottom + 22}" font-size="11" role="img" aria-label="Samples'
        f' and classes of {clients} clients, in words below">'
        f'<g transform="translate({LEFT}) scale({column:.4g} 1)">'
        f'<path class="floor" d="M0 {start}h{clients}v{height}h-{clients}z"/>'
        f"{_bars(sizes * BARS / most, TOP + BARS)}"
        f'<g transform="translate(0 {start})">{lower}</g><path class="rules" d="{lines}"/></g>'
        f"{''.join(text)}</svg>"
    )


def _by_class(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys that sort clients: by their largest class, then by its share."""
    return -counts.max(axis=1) / counts.sum(axis=1), counts.argmax(axis=1)


def _short(name: str) -> str:
    return name if len(name) <= 13 else f"{name[:12]}…"


def _bars(heights: np.ndarray, base: int) -> str:
    """Return bars, one over the other: all samples, those that are not for testing, and those for
    training.
    """
    shown = {0.3: heights[:, 2], 0.6: heights[:, 1], 1.0: heights[:, 0]}
    return "".join(_outline(base, base - part, shade) for shade, part in shown.items())


def _outline(base: int, tops: np.ndarray, shade: float) -> str:
    """Return the outline of bars that touch, one unit wide each."""
    bars = "".join(f"V{top:.4g}h1" for top in tops)
    return f'<path opacity="{shade}" d="M0 {base}{bars}V{base}z"/>'


def _matrix(shares: np.ndarray) -> str:
    """Return a rectangle per class and run of clients with the same shade  [N, C]."""
    bounds, paths = [0.0, *SHADES], dict.fromkeys(SHADES.values(), "")
    for label, row in enumerate(shares.T):
        start = 0
        for level, run in groupby(bisect_left(bounds, share) for share in row):
            width = len(list(run))
            if level:
                paths[SHADES[bounds[level]]] += f"M{start} {label}h{width}v1h-{width}z"
            start += width
    drawn = "".join(f'<path opacity="{shade}" d="{d}"/>' for shade, d in paths.items() if d)
    return f'<g transform="scale(1 {ROW})">{drawn}</g>'


def _tallies(counts: np.ndarray, height: int) -> str:
    """Return bars of the number of classes that a client has, and of those that make up half of its
    samples.
    """
    largest = -np.sort(-counts, axis=1)
    reached = largest.cumsum(axis=1) * 2 < counts.sum(axis=1, keepdims=True)
    numbers = {0.4: (counts > 0).sum(axis=1), 1.0: reached.sum(axis=1) + 1}
    scale = height / counts.shape[1]
    return "".join(_outline(height, height - scale * n, shade) for shade, n in numbers.items())
