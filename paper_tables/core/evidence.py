"""What artefact functions receive: planned cells, and the data of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from repfl.paper_tables.core.statistics.noise import Noise

Arrays = Mapping[str, "np.ndarray"]
Reduce = Callable[[Arrays], Arrays]
"""Reduces the diagnostics of a run, which may be as large as its models, to the few arrays that an
artefact shows.
"""

TRIAL = (
    "row", "column", "seed", "trial", "id", "status", "validation", "test", "chosen", "options",
)  # fmt: skip


class Evidence(Protocol):
    """The planned cells of one artefact at one scale, with the data of their runs."""

    scale: str
    seeds: tuple[int, ...]
    published: pd.DataFrame
    """The rows of `read_published`."""
    noise: Noise
    """Variances between runs of our cells with several seeds, by pool."""

    @property
    def cells(self) -> pd.DataFrame:
        """One row per planned cell, done or not."""

    def trials(self) -> pd.DataFrame:
        """Return every trial of the searches, chosen or not; columns `TRIAL`."""

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        """Return each client's counts in the reported round: id, client, correct, total."""

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        """Return curves of these names: id, name, round, value. A name that ends in a slash stands
        for all that start with it.
        """

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        """Return the reduced diagnostics of one cell. All arrays that are read here are shipped
        with the code, so read no more than needed.
        """


class Changed:
    """Evidence with other cells or other published numbers."""

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


def folded(evidence: Evidence, *endings: str) -> Changed:
    """Return evidence in which recipes with these endings stand in the column that they vary."""
    column = evidence.cells["column"]
    for ending in endings:
        column = column.str.removesuffix(ending)
    return Changed(evidence, cells=evidence.cells.assign(column=column))


def curve_matches(name: str, names: Sequence[str]) -> bool:
    """Return whether a curve is among the named ones; a name that ends in a slash stands for all
    that start with it.
    """
    return name in names or any(each.endswith("/") and name.startswith(each) for each in names)


def places(evidence: Evidence) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the planned cells of every (row, column)."""
    return {
        (str(row), str(column)): cells
        for (row, column), cells in evidence.cells.groupby(["row", "column"], sort=False)
    }


def pick(
    evidence: Evidence, *, row: str | None = None, column: str | None = None, done: bool = False
) -> pd.DataFrame:
    """Return the planned cells of a table row, a column, or both."""
    cells, mask = evidence.cells, np.ones(len(evidence.cells), dtype=bool)
    for name, value in (("row", row), ("column", column), ("status", "done" if done else None)):
        if value is not None:
            mask &= cells[name].to_numpy(dtype=object) == value
    return cells[mask]


def chosen_text(studies: Iterable[Mapping[str, Any]]) -> str:
    """Return what validation chose: each option with its values, by study."""
    values: dict[str, list[str]] = {}
    for options in studies:
        for name, value in options.items():
            text = f"{value:.3g}" if isinstance(value, float) else str(value)
            values.setdefault(name, []).append(text)
    return "; ".join(f"{name} {', '.join(texts)}" for name, texts in values.items())


def seed_count(cells: pd.DataFrame) -> int:
    """Return how many finished seeds every row has at least in a column."""
    done = cells[cells["status"] == "done"].groupby(["row", "column"])["seed"].nunique()
    return 0 if done.empty else int(done.min())


def values_of(cells: pd.DataFrame, name: str, default: Any = None) -> list[Any]:
    """Return a column as plain values. To select from a list is a hundred times as fast as from a
    frame, and tables do little else.
    """
    return cells[name].tolist() if name in cells else [default] * len(cells)


def first(cells: pd.DataFrame, name: str, default: Any = None) -> Any:
    """Return the first value of a column; the default if there is no cell or no such column."""
    return cells[name].iloc[0] if len(cells) and name in cells else default


def spans(arrays: Arrays) -> dict[str, slice]:
    """Return the part of every tensor in the flat arrays of a run."""
    fields = (arrays[f"layout/{field}"].tolist() for field in ("names", "starts", "stops"))
    return {str(name): slice(start, stop) for name, start, stop in zip(*fields, strict=True)}


class Metrics(Protocol):
    """The numbers of a run that is done, as the column `metrics` has them."""

    @property
    def notes(self) -> Mapping[str, float]: ...

    def last(self, point: str) -> Mapping[str, float]: ...

    def score(self, point: str, rule: str, average: str) -> float | None: ...


def scores(cells: pd.DataFrame, point: str | None = None, rule: str | None = None) -> list[float]:
    """Return the cells' reported accuracies in percent; with a point or a rule, at that scoring
    point or by that rule instead.
    """
    if point is None and rule is None:
        return [100 * float(value) for value in cells["accuracy"]]
    return [_score_at(cell, point, rule) for _, cell in cells.iterrows()]


def _score_at(cell: pd.Series, point: str | None, rule: str | None) -> float:
    if (metrics := _metrics(cell.get("metrics"))) is None:
        return nan
    value = metrics.score(
        point or str(cell.get("recipe.evaluation.point", "post_agg")),
        rule or str(cell.get("recipe.evaluation.rule", "last")),
        str(cell.get("recipe.evaluation.average", "clients")),
    )
    return nan if value is None else 100 * value


def decile(cell: pd.Series) -> float:
    """Return the tenth percentile of the clients' accuracies after the last round, in percent."""
    point = str(cell.get("recipe.evaluation.point", "post_agg"))
    metrics = _metrics(cell.get("metrics"))
    return nan if metrics is None else 100 * metrics.last(point).get("decile", nan)


ACCURACY = {"mean", "pooled", "std", "decile"}


def extra_metrics_of(metrics: Metrics | None, point: str) -> dict[str, float]:
    """Return the metrics of a recipe that are not accuracy, at a scoring point after the last
    round.
    """
    last = {} if metrics is None else metrics.last(point)
    return {name: value for name, value in last.items() if name not in ACCURACY}


def extra_metrics(cells: pd.DataFrame) -> list[dict[str, float]]:
    """Return the metrics that are not accuracy of every cell, at its recipe's point."""
    points = values_of(cells, "recipe.evaluation.point", "post_agg")
    metrics = values_of(cells, "metrics")
    return [
        extra_metrics_of(_metrics(values), str(point))
        for values, point in zip(metrics, points, strict=True)
    ]


def noted(metrics: Any, name: str) -> float:
    """Return what a run's method noted after the last round; NaN if there is none."""
    found = _metrics(metrics)
    return nan if found is None else found.notes.get(name, nan)


def _metrics(value: Any) -> Metrics | None:
    """Return the numbers of a run from a cell of the frame; None if it has none."""
    return None if value is None or isinstance(value, float) else value


COMMITTED = "committed"
"""Mark of numbers that came with the code."""
STALE = "stale"


def tier_of(cells: pd.DataFrame) -> str:
    """Return whether any finished cell came with the code, and whether any is stale; empty if all
    were computed here, by today's versions.
    """
    pairs = zip(values_of(cells, "status"), values_of(cells, "tier"), strict=True)
    tiers = {tier for status, text in pairs if status == "done" for tier in str(text).split(", ")}
    return ", ".join(text for text in (COMMITTED, STALE) if text in tiers)


def why_missing(cells: pd.DataFrame, scale: str) -> str:
    """Return why some of these planned cells have no number; empty if all have."""
    if cells.empty:
        return f"no cell at the {scale} scale"
    statuses = values_of(cells, "status")
    parts = []
    for status in sorted(set(statuses) - {"done"}):
        rows = zip(statuses, values_of(cells, "seed"), values_of(cells, "reason"), strict=True)
        group = [(seed, reason) for cell_status, seed, reason in rows if cell_status == status]
        seeds = ", ".join(str(seed) for seed in sorted({seed for seed, _ in group}))
        reasons = {r for _, r in group if isinstance(r, str)} - {"", "not computed yet"}
        word = "not run yet" if status == "missing" else status
        text = "; ".join(sorted(reasons))
        parts.append(": ".join(filter(None, [f"{word} (seed {seeds})", text])))
    return "; ".join(parts)


def setting(cells: pd.DataFrame) -> str:
    """Return the setting of some cells in words: data, clients, rounds."""

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
