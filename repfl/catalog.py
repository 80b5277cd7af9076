"""What there is, as data frames: methods, recipes and data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

Plugins = str | Path | Sequence[str | Path]
Grids = str | Path | Sequence[str | Path]


def load_plugins(plugins: Plugins = (), grids: Grids = ()) -> None:
    """Register what these files, those that grid files name, and installed packages define."""
    from repfl.bench.grid import plugins as outside
    from repfl.bench.grid.grid import with_named

    outside.load(with_named((str(path) for path in paths(plugins)), paths(grids)))


def paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return files as a list, also if they are one."""
    return [Path(each) for each in ([given] if isinstance(given, str | Path) else given)]


def methods(plugins: Plugins = ()) -> pd.DataFrame:
    """Return every method by name: title, family, year, what it needs and sends, and its paper."""
    from repfl.algorithms.core.method import methods as registered
    from repfl.bench.grid import catalog

    load_plugins(plugins)
    facts = pd.DataFrame([catalog.method_facts(name) for name in sorted(registered())])
    columns = ["title", "family", "year", "version", "needs", "sends", "variants", "paper"]
    return facts.set_index("name")[columns]


def hyperparameters(method: str, plugins: Plugins = ()) -> pd.DataFrame:
    """Return the hyper-parameters of a method: default, what papers use, valid values, meaning."""
    from repfl.bench.grid import catalog
    from repfl.bench.grid.methods import entry

    load_plugins(plugins)
    columns = ["name", "default", "paper", "valid", "meaning"]
    facts = catalog.option_facts(entry(method).cls.HP)
    return pd.DataFrame(facts, columns=columns).set_index("name")


def recipe(
    name: str, scale: str = "smoke", *, grids: Grids = (), plugins: Plugins = (), **changes: Any
) -> Recipe:
    """Return a recipe at a scale, by `paper/recipe` or a name that is unique, with changes:
    `recipe("fedpurin/cifar10-dir0.1", "desk", clients=20, training={"rounds": 5})`. It is of a
    paper, or of `grids`, files of your own. `plugins` are files that register data or models.
    """
    from repfl.bench.grid.catalog import find_recipe
    from repfl.bench.grid.dotted_names import merge
    from repfl.bench.grid.recipes import recipe_from, recipe_values

    load_plugins(plugins, grids)
    full, resolved, _, _ = find_recipe(str(name), scale, paths(grids))
    if not changes:
        return resolved
    changed = merge(recipe_values(resolved), python_values(changes))
    return recipe_from(changed, f"recipe {full!r} with changes")


def python_values(value: Any) -> Any:
    """Return a value with Python's numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {key: python_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [python_values(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def recipes(scale: str = "smoke", *, grids: Grids = (), plugins: Plugins = ()) -> pd.DataFrame:
    """Return the recipes of the papers, and of grid files of your own, at a scale, by the name that
    `recipe` takes.
    """
    from repfl.bench.grid.catalog import all_recipe_facts

    load_plugins(plugins, grids)
    entries = all_recipe_facts(scale, paths(grids))
    facts = pd.DataFrame([each for each in entries if each["scale"] == scale])
    columns = ["label", "dataset", "partition", "options", "model", "clients", "participation"]
    columns += ["rounds", "epochs", "batch", "lr"]
    return facts.rename(columns={"name": "recipe"}).set_index("recipe")[columns]


def data(plugins: Plugins = ()) -> pd.DataFrame:
    """Return the data sets: whether they are here, their size, and what needs them. `repfl data get
    NAME` and `repfl data import NAME` bring those that are not.
    """
    from repfl.bench.grid.catalog import all_dataset_facts

    load_plugins(plugins)
    facts = pd.DataFrame(all_dataset_facts())
    facts["samples"] = [sum(splits.values()) for splits in facts["splits"]]
    facts["classes"] = facts["classes"].map(len)
    columns = ["title", "present", "samples", "classes", "shape", "licence", "needed_by"]
    return facts.set_index("name")[columns]
