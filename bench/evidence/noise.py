"""What the noise model is fitted to: every cell with several measured seeds, and every printed
deviation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.bench.evidence import measured
from repfl.bench.evidence.line import Line
from repfl.bench.evidence.measured import Measured
from repfl.bench.grid import grid as grids
from repfl.bench.grid.cell import canonical
from repfl.paper_tables.core import noise, published
from repfl.paper_tables.core.operating import CLEAR, operating_characteristics, runs_needed
from repfl.paper_tables.core.statistics import Expected

OURS = (1, 3, 5)
"""Numbers of our runs that the table of error rates is for."""


def fitted(root: Path | None = None) -> noise.Noise:
    """The noise model of everything that came with the code."""
    return _fitted(root or grids.ROOT)


@cache
def _fitted(root: Path) -> noise.Noise:
    return noise.fit(groups(root), same_clients(root))


def same_clients(root: Path | None = None) -> dict[str, str]:
    """Recipes whose clients hold the images of an earlier recipe's and train the same model, be it
    shorter or at another learning rate: how noisy they are is the same question.
    """
    found = {}
    for paper in grids.printed(root):
        grid = grids.read(grids.files(root)[paper])
        first: dict[str, str] = {}
        for name in grid.file.recipes:
            recipe = grid.recipe(name, "paper")
            model = recipe.model, recipe.input, recipe.classes
            dealt = recipe.clients, asdict(recipe.partition)
            key = canonical([recipe.dataset, recipe.norm, *model, *dealt])
            if first.setdefault(key, name) != name:
                found[f"{paper}/{name}"] = f"{paper}/{first[key]}"
    return found


def groups(root: Path | None = None) -> pd.DataFrame:
    """All groups (columns `noise.GROUPS`)."""
    return pd.concat([noise.groups_of(measured_runs(root)), *_printed()], ignore_index=True)


def measured_runs(root: Path | None = None) -> pd.DataFrame:
    """Measured lines of cells with several seeds (columns `noise.RUNS`); accuracies as their
    recipes report them, in percent. The board's trials differ in more than seeds.
    """
    found = [
        run
        for paper in grids.printed(root)
        for scale in grids.SCALES
        for run in _runs(paper, scale, root)
    ]
    return pd.DataFrame(found, columns=list(noise.RUNS))


def _runs(paper: str, scale: str, root: Path | None) -> Iterator[tuple[Any, ...]]:
    """The runs of one paper and scale; a partition is known by its digest."""
    known = measured.read(paper, scale, root)
    groups: dict[str, dict[int, Line]] = {}
    for line in filter(None, map(known.line, known.cells)):
        if line.value is not None:
            alike = {**line.record.cell, "column": line.column, "seed": None}
            groups.setdefault(canonical(alike), {})[line.record.cell["seed"]] = line
    for key, seeds in groups.items():
        if len(seeds) > 1:
            own = len({line.record.provenance["partition"] for line in seeds.values()}) > 1
            pool = noise.pool(scale, one_partition=not own)
            for seed, line in seeds.items():
                place = f"{paper}/{line.column}"
                run = seed, 100 * (line.value or 0), _decisions(line), own
                yield (pool, place, line.method, key, *run)


def of_line(line: Line, known: Measured) -> Expected:
    """What is expected of the runs of a published line's cell."""
    dealt_once = line.record.cell["recipe"]["partition"].get("seed") is not None
    return fitted().expected(
        noise.pool(known.scale, one_partition=dealt_once),
        f"{known.paper}/{line.column}",
        line.method,
    )


def _decisions(line: Line) -> int:
    """How many test images an accuracy is a share of; without counts about a quarter of the
    training images.
    """
    if line.counts is not None:
        return int(line.counts.total.sum())
    return max(1, int(line.record.provenance["samples"]) // 4)


def operating(root: Path | None = None) -> tuple[tuple[str, ...], ...]:
    """How often verdicts err on every paper's main tables: a head, and a line per paper and number
    of our runs.
    """
    return _operating(root or grids.ROOT)


@cache
def _operating(root: Path) -> tuple[tuple[str, ...], ...]:
    head: tuple[str, ...] = ("paper", "their runs", "ours", "deviation of a run")
    head += ("false alarms", "false acceptances", "reproduced if equal")
    lines: list[tuple[str, ...]] = [(*head, f"found if {CLEAR:g} points apart")]
    for paper in grids.files(root):
        settings = _settings(paper)
        if not hasattr(settings, "PRINTING"):
            continue
        printing: published.Printing = settings.PRINTING
        expected = _expected(paper, settings, fitted(root))
        told = str(printing.runs) + (
            " and their deviation" if hasattr(settings, "DEVIATIONS") else ""
        )
        for ours in OURS:
            found = operating_characteristics(
                expected, ours, printing.runs, printed=hasattr(settings, "DEVIATIONS")
            )
            shares = (found.false_alarms, found.false_acceptances, found.reproduced, found.found)
            lines.append(
                (
                    paper,
                    told,
                    str(ours),
                    f"{_typical(expected):.2f}",
                    *(f"{100 * share:.1f} %" for share in shares),
                )
            )
    return tuple(lines)


@cache
def seeds_needed() -> dict[str, int | None]:
    """By paper, how many seeds of ours it takes until half of the accuracies that are equal come
    out *reproduced*.
    """
    found = {}
    for paper in grids.files(grids.ROOT):
        settings = _settings(paper)
        if hasattr(settings, "PRINTING"):
            expected = _expected(paper, settings, fitted(grids.ROOT))
            found[paper] = runs_needed(
                expected, settings.PRINTING.runs, printed=hasattr(settings, "DEVIATIONS")
            )
    return found


def _typical(expected: list[Expected]) -> float:
    """The deviation of a run in the middle of the cells."""
    return float(pd.Series([each.variance for each in expected]).median() ** 0.5)


def _expected(paper: str, settings: Any, model: noise.Noise) -> list[Expected]:
    """What the model expects of every cell of the paper's main table."""
    where = noise.pool("paper", one_partition=not settings.PRINTING.own_partitions)
    columns = getattr(settings, "PLACES", None) or settings.DATASETS
    methods = [noise.method_of(name) for name in settings.METHODS]
    return [
        model.expected(where, f"{paper}/{column}", method)
        for column in columns
        for method in methods
    ]


def _settings(paper: str) -> Any:
    """A paper's module of settings; nothing where it has none."""
    if not (grids.folder(paper) / "settings.py").is_file():
        return None
    return import_module(f"repfl.paper_tables.{paper.replace('-', '_')}.settings")


def _printed() -> Iterator[pd.DataFrame]:
    """The deviations that papers print."""
    for paper, path in grids.files(grids.ROOT).items():
        settings = _settings(paper)
        for table, places in getattr(settings, "DEVIATIONS", {}).items():
            frame = published.read_published(path.parent / "published").frame
            yield noise.printed_groups(frame, paper, table, places, settings.PRINTING)
