"""Compute cells from Python: one, or methods crossed with recipes and seeds. A cell has the same
id, record and bits as from the command line.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from math import nan
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from repfl.bench.errors import FAILED, UserError, unknown
from repfl.catalog import Plugins, load_plugins, paths, python_values
from repfl.catalog import recipe as recipe_of

if TYPE_CHECKING:
    from repfl.bench.evidence.committed.committed_run import Line
    from repfl.bench.grid.planned import Planned
    from repfl.bench.run.runner import Ending
    from repfl.bench.store.record import Record
    from repfl.bench.store.store import Store
    from repfl.datasets.core.recipe import Recipe

AnyRecipe: TypeAlias = "str | Recipe | Mapping[str, Any]"
SECONDS_IN_SILENCE = 2.0
"""Progress is shown if cells are expected to take longer."""


class Run:
    """A computed cell: its record, and what is in it."""

    def __init__(self, record: Record, store: Store) -> None:
        self.record = record
        self.store = store

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def status(self) -> str:
        """Return `done`; or `diverged` or `skipped`, and `record.reason` says why."""
        return self.record.status

    @property
    def accuracy(self) -> float:
        """Return what the recipe reports, as a share of 1; NaN if there is none."""
        return nan if self.record.value is None else self.record.value

    @property
    def floor(self) -> float:
        """Return the accuracy of predicting every client's most frequent class."""
        if (metrics := self.record.metrics) is None or metrics.floor is None:
            return nan
        return metrics.floor.by(self.record.recipe.evaluation.average)

    @cached_property
    def _line(self) -> Line:
        from repfl.bench.evidence.committed.committed_run import line_of

        return line_of(self.record, self.store)

    @property
    def curves(self) -> pd.DataFrame:
        """Return one row per round, one column per curve, such as `post_agg/mean`."""
        from repfl.results import curves_of

        long = curves_of([self._line])
        return long.pivot(index="round", columns="name", values="value").rename_axis(columns=None)

    @property
    def clients(self) -> pd.DataFrame:
        """Return one row per client: correct and total test samples in the reported round.
        Newcomers are not among them, and the others are counted from 0.
        """
        from repfl.results import clients_of

        return clients_of([self._line]).drop(columns="id").set_index("client")

    def __repr__(self) -> str:
        cell = self.record.cell
        number = "" if self.status != "done" else f", accuracy {100 * self.accuracy:.2f} %"
        return (
            f"<{cell['method']} on {cell['recipe']['dataset']}, seed {cell['seed']}: {self.status}"
            f"{number} ({self.id[:12]})>"
        )

    def _repr_html_(self) -> str:
        cell, seconds = self.record.cell, self.record.origin.seconds
        recipe = cell["recipe"]
        facts = {
            "method": cell["method"],
            "dataset": f"{recipe['dataset']}, {recipe['clients']} clients",
            "model": recipe["model"],
            "rounds": recipe["training"]["rounds"],
            "seed": cell["seed"],
            "status": f"{self.status} {self.record.reason}".strip(),
            "accuracy": f"{100 * self.accuracy:.2f} %",
            "floor": f"{100 * self.floor:.2f} %",
            "seconds": f"{nan if seconds is None else seconds.wall:.1f}",
            "cell": self.id[:12],
        }
        return pd.Series(facts, dtype=object).to_frame("").to_html(header=False)


def run(
    method: str,
    recipe: AnyRecipe,
    seed: int = 0,
    *,
    hp: Mapping[str, Any] | None = None,
    scale: str = "smoke",
    plugins: Plugins = (),
    progress: bool | None = None,
    **options: Any,
) -> Run:
    """Compute one cell, or fetch it if it is stored already.

    `method` is a name, or `name[option=value]`; `hp` are further hyper-parameters. `recipe` is one
    of the papers' (`repfl.recipes()`), taken at `scale`, or one of your own; at scale `smoke` the
    data of a paper's recipe are replaced by digits. `plugins` are files that register methods.
    `options` are those of `repfl run`: `results`, `device`, `precision`, `fresh` and so on.
    """
    from repfl.bench.cli.options import again

    planned = [_planned(_method(method, hp), recipe, seed, scale, plugins, options)]
    summary, store = _compute(planned, plugins, progress, options)
    cell = planned[0].cell
    for outcome in summary.of("failed", "refused"):
        show = f"; record and traceback: `repfl show {cell.short}{again((), store)}`"
        raise UserError(f"{cell}: {outcome.reason}{show * outcome.is_stored}", FAILED)
    record = store.get(cell.id)
    assert record is not None  # it was stored a moment ago
    return Run(record, store)


def grid(
    methods: str | Sequence[str],
    recipes: str | Sequence[AnyRecipe] | Mapping[str, AnyRecipe],
    seeds: int | Sequence[int] = (0,),
    *,
    scale: str = "smoke",
    plugins: Plugins = (),
    progress: bool | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compute methods x recipes x seeds, and return their rows of `load`, in this order.

    A mapping names recipes of your own. `workers=2` computes two cells side by side. A cell that
    fails costs the others nothing: its row says why.
    """
    from repfl.results import load

    methods = [methods] if isinstance(methods, str) else methods
    seeds = [seeds] if isinstance(seeds, int | np.integer) else seeds
    if not isinstance(recipes, Mapping):
        several: Sequence[Any] = recipes if isinstance(recipes, list | tuple) else [recipes]
        recipes = {_label(each): each for each in several}
    planned = [
        _planned(method, recipe, seed, scale, plugins, options, label)
        for label, recipe in recipes.items()
        for method in methods
        for seed in seeds
    ]
    if not planned:
        raise UserError("nothing to compute: methods, recipes and seeds need one each")
    summary, store = _compute(planned, plugins, progress, options)
    for outcome in summary.of("refused"):
        raise UserError(outcome.reason)
    frame = load(store.root, measured=False).loc[[item.cell.id for item in planned]]
    failed = {outcome.id: outcome for outcome in summary.of("failed")}
    for cell, outcome in failed.items():  # of a cell that was done before, that result is stored
        frame.loc[cell, ["status", "reason"]] = outcome.status, outcome.reason
    return frame.assign(
        row=[item.row for item in planned], recipe=[item.column for item in planned]
    )


# -- planning --------------------------------------------------------------------------------------


def _method(method: str, hp: Mapping[str, Any] | None) -> str:
    from repfl.bench.grid.methods import parse_spec, spec

    name, options = parse_spec(method)
    return spec(name, options | python_values(hp or {}))


def _label(recipe: AnyRecipe) -> str:
    if isinstance(recipe, str):
        return recipe
    raise UserError("recipes of your own need names: recipes={'mine': {...}}")


def resolved_recipe(recipe: AnyRecipe, scale: str, label: str = "recipe") -> Recipe:
    """Return a recipe by its name at a scale, or one of the user's own as it is."""
    from repfl.bench.grid.recipes import recipe_from

    if isinstance(recipe, str):
        return recipe_of(recipe, scale)
    if scale != "smoke":
        raise UserError(f"scale={scale!r}: a recipe has a size already; repfl.recipe takes a scale")
    if isinstance(recipe, Mapping):
        return recipe_from(python_values(recipe), label)
    return recipe


def _planned(
    method: str,
    recipe: AnyRecipe,
    seed: int,
    scale: str,
    plugins: Plugins,
    options: Mapping[str, Any],
    label: str = "recipe",
) -> Planned:
    """Return the cell, planned as in a grid."""
    from repfl.bench.grid.cell import build_cell, unmet
    from repfl.bench.grid.methods import entry, parse_spec
    from repfl.bench.grid.planned import Planned

    load_plugins(plugins)
    name, hp = parse_spec(method)
    if entry(name).cls.__module__ == "__main__":
        raise UserError(
            f"method {name!r}: is defined in the running script or notebook; write it to a file and"
            " pass plugins=['FILE.py'], so that a record can say what computed it; repfl.open"
            " steps through it as it is, and stores nothing"
        )
    resolved = resolved_recipe(recipe, scale, label)
    arguments = f"{recipe!r}, {seed}, scale={scale!r}" if isinstance(recipe, str) else ""
    cell = build_cell(name, hp, resolved, python_values(seed))
    arguments = arguments or f"{cell.json['recipe']}, {seed}"
    settings = {name: options[name] for name in ("precision", "stack") if name in options}
    if plugins:
        settings["plugins"] = [str(path) for path in paths(plugins)]
    keywords = "".join(f", {name}={value!r}" for name, value in settings.items())
    code = f"import repfl; repfl.run({method!r}, {arguments}{keywords}, fresh=True)"
    skip, call = unmet(cell), f"python -c {quote(code)}"
    return Planned(cell, "", "", "table", method, label, label, scale, skip=skip, own_command=call)


# -- computing it ----------------------------------------------------------------------------------


def _compute(
    planned: Sequence[Planned], plugins: Plugins, progress: bool | None, options: Mapping[str, Any]
) -> tuple[Ending, Store]:
    from repfl.bench.cli.experiments import options_of
    from repfl.bench.cli.options import Launch
    from repfl.bench.run import cost, runner
    from repfl.bench.run.progress import Progress
    from repfl.bench.store import versions
    from repfl.bench.store.store import Store

    valid = {field.name for field in fields(Launch)}
    for name in options.keys() - valid:
        raise unknown("option", name, valid)
    launch = Launch(**{"executor": None if "workers" in options else "inline", **options})
    task_options = options_of(launch, [str(path) for path in paths(plugins)])
    visible = sum(map(cost.static, planned)) > SECONDS_IN_SILENCE if progress is None else progress
    display = Progress() if visible else Progress(io.StringIO())
    summary = runner.run(planned, task_options, launch.executor, launch.workers, display)
    if summary.signal:
        raise KeyboardInterrupt
    for record in summary.stored:
        if not (currency := versions.of_record(record.origin, record.cell)).current:
            text = f"the stored result of {record.id[:12]} is not of today: {currency.reason}"
            warnings.warn(f"{text}; fresh=True computes it again", stacklevel=3)
    return summary, Store(Path(task_options.results))
