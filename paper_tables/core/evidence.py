"""What artefact functions are handed, and how they ask it questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from repfl.paper_tables.core.statistics.intervals import FEWEST

if TYPE_CHECKING:
    from repfl.paper_tables.core.statistics.noise import Noise

Arrays = Mapping[str, "np.ndarray"]
Reduce = Callable[[Arrays], Arrays]
"""From the diagnostics of a run, which may be as large as its models, to the little that an
artefact shows of them.
"""

TRIAL = ("row", "column", "seed", "trial", "id", "status", "validation", "test", "chosen")


class Evidence(Protocol):
    """The planned cells of one artefact at one scale, with whatever is known about them."""

    scale: str
    seeds: tuple[int, ...]
    published: pd.DataFrame
    """The rows of `read_published`."""
    noise: Noise
    """What is known of the noise between runs."""

    @property
    def cells(self) -> pd.DataFrame:
        """One row per planned cell, done or not."""

    def trials(self) -> pd.DataFrame:
        """Every trial of the searches, chosen or not; the columns of `TRIAL`."""

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        """Each client's counts in the reported round: id, client, correct, total."""

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        """Curves of these names: id, name, round, value. A name that ends in a slash stands for all
        that start so.
        """

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        """What `reduce` makes of the diagnostics of one cell. What is read here is all that travels
        with the code, so read no more.
        """


class Changed:
    """Evidence of which something is otherwise: its cells, or what is published."""

    def __init__(
        self,
        evidence: Evidence,
        *,
        cells: pd.DataFrame | None = None,
        published: pd.DataFrame | None = None,
    ) -> None:
        self.scale, self.seeds, self.noise = evidence.scale, evidence.seeds, evidence.noise
        self.rounds, self.arrays = evidence.rounds, evidence.arrays
        self.trials, self.clients = evidence.trials, evidence.clients
        self.cells: pd.DataFrame = evidence.cells if cells is None else cells
        self.published: pd.DataFrame = evidence.published if published is None else published


def wanted(name: str, names: Sequence[str]) -> bool:
    """Whether a curve is among the named ones; a name that ends in a slash stands for all that
    start so.
    """
    return name in names or any(each.endswith("/") and name.startswith(each) for each in names)


def places(evidence: Evidence) -> dict[tuple[str, str], pd.DataFrame]:
    """The planned cells of every (row, column)."""
    return {
        (str(row), str(column)): cells
        for (row, column), cells in evidence.cells.groupby(["row", "column"], sort=False)
    }


def pick(
    evidence: Evidence, *, row: str | None = None, column: str | None = None, done: bool = False
) -> pd.DataFrame:
    """The planned cells of a table row, a column, or both."""
    cells, keep = evidence.cells, np.ones(len(evidence.cells), dtype=bool)
    for name, value in (("row", row), ("column", column), ("status", "done" if done else None)):
        if value is not None:
            keep &= cells[name].to_numpy(dtype=object) == value
    return cells[keep]


def few_seeds(cells: pd.DataFrame) -> bool:
    """Return whether any row has fewer than three finished seeds in a column."""
    done = cells[cells["status"] == "done"].groupby(["row", "column"])["seed"].nunique()
    return done.empty or int(done.min()) < FEWEST


def listed(cells: pd.DataFrame, name: str, default: Any = None) -> list[Any]:
    """A column of a few cells as plain values: to select from a frame costs a hundred times as much
    as from a list, and tables do little else.
    """
    return cells[name].tolist() if name in cells else [default] * len(cells)


def first(cells: pd.DataFrame, name: str, default: Any = None) -> Any:
    """What the first of some cells has in a column; the default where there is neither."""
    return cells[name].iloc[0] if len(cells) and name in cells else default


def spans(arrays: Arrays) -> dict[str, slice]:
    """Return the part of every tensor in the flat arrays of a run."""
    fields = (arrays[f"layout/{field}"].tolist() for field in ("names", "starts", "stops"))
    return {str(name): slice(start, stop) for name, start, stop in zip(*fields, strict=True)}


RULES = {"last": "last", "max": "max", "best-val": "best_val"}
AVERAGES = {"clients": "mean", "pooled": "pooled"}


def scores(cells: pd.DataFrame, point: str | None = None, rule: str | None = None) -> list[float]:
    """The cells' reported accuracies in percent; with a point or a rule, at that scoring point or
    by that rule instead.
    """
    if point is None and rule is None:
        return [100 * float(value) for value in cells["value"]]
    return [_score_at(cell, point, rule) for _, cell in cells.iterrows()]


def _score_at(cell: pd.Series, point: str | None, rule: str | None) -> float:
    found = (
        _metrics(cell)
        .get("points", {})
        .get(point or str(cell.get("recipe.evaluation.point", "post_agg")))
        or {}
    )
    at_rule = found.get(RULES[rule or str(cell.get("recipe.evaluation.rule", "last"))]) or {}
    value = at_rule.get(AVERAGES[str(cell.get("recipe.evaluation.average", "clients"))])
    return nan if value is None else 100 * float(value)


def decile(cell: pd.Series) -> float:
    """Accuracy of the worst tenth of the clients after the last round, in percent."""
    point = str(cell.get("recipe.evaluation.point", "post_agg"))
    value = ((_metrics(cell).get("points", {}).get(point) or {}).get("last") or {}).get("decile")
    return nan if value is None else 100 * float(value)


ACCURACY = {"mean", "pooled", "std", "decile"}


def beside_accuracy(metrics: Mapping[str, Any], point: str) -> dict[str, float]:
    """The metrics that a recipe asks for beside accuracy, at a scoring point after the last
    round.
    """
    last = (metrics.get("points", {}).get(point) or {}).get("last") or {}
    return {name: float(value) for name, value in last.items() if name not in ACCURACY}


def metrics_beside(cells: pd.DataFrame) -> list[dict[str, float]]:
    """The same of every cell, at the point that its recipe reports."""
    points = listed(cells, "recipe.evaluation.point", "post_agg")
    held = listed(cells, "metrics")
    return [
        beside_accuracy(each if isinstance(each, Mapping) else {}, str(point))
        for each, point in zip(held, points, strict=True)
    ]


def _metrics(cell: pd.Series) -> Mapping[str, Any]:
    metrics = cell.get("metrics")
    return metrics if isinstance(metrics, Mapping) else {}


TIERS = ("measured", "confirmed")
"""How well a number is founded, the weakest first; most that were computed here have none."""
STALE = "stale"


def tier(cells: pd.DataFrame) -> str:
    """The weakest tier among finished cells, and whether any is stale; nothing where all were
    computed here, by today's versions.
    """
    told = zip(listed(cells, "status"), listed(cells, "tier"), strict=True)
    words = {word for status, each in told if status == "done" for word in str(each).split(", ")}
    return ", ".join([*[each for each in TIERS if each in words][:1], *(words & {STALE})])


def why_missing(cells: pd.DataFrame, scale: str) -> str:
    """Why some of these planned cells have no number; empty when all have."""
    if cells.empty:
        return f"no cell at the {scale} scale"
    statuses = listed(cells, "status")
    pieces = []
    for status in sorted(set(statuses) - {"done"}):
        told = zip(statuses, listed(cells, "seed"), listed(cells, "reason"), strict=True)
        group = [(seed, reason) for each, seed, reason in told if each == status]
        seeds = ", ".join(str(seed) for seed in sorted({seed for seed, _ in group}))
        known = {r for _, r in group if isinstance(r, str)} - {"", "not computed yet"}
        word = "not run yet" if status == "missing" else status
        pieces.append(": ".join(filter(None, [f"{word} (seed {seeds})", "; ".join(sorted(known))])))
    return "; ".join(pieces)


def setting(cells: pd.DataFrame) -> str:
    """What a scale means for these cells: data, clients, rounds."""

    def span(name: str, one: str, many: str) -> str:
        values = (
            sorted(pd.to_numeric(cells[name], errors="coerce").dropna().astype(int).unique())
            if name in cells
            else []
        )
        if not values:
            return ""
        return f"{' or '.join(map(str, values))} {one if values == [1] else many}"

    name = "dataset_title" if "dataset_title" in cells else "dataset"
    data = ", ".join(sorted({str(d) for d in cells[name].dropna()})) if name in cells else ""
    parts = [
        data,
        span("recipe.clients", "client", "clients"),
        span("recipe.training.rounds", "round", "rounds"),
    ]
    return ", ".join(p for p in parts if p)
