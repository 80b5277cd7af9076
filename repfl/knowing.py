"""What there is: methods, recipes and datasets, as data frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

Plugins = Sequence[str | Path]


def admit(plugins: Plugins = ()) -> None:
    """Make the methods of these files, and of installed packages, known."""
    from repfl.bench.grid import plugins as outside

    outside.load([str(path) for path in plugins])


def methods(plugins: Plugins = ()) -> pd.DataFrame:
    """Every method by name: title, family, year, what it needs and sends, and its paper."""
    from repfl.algorithms.core.method import methods as registered
    from repfl.bench.grid import catalog

    admit(plugins)
    facts = pd.DataFrame([catalog.method_facts(name) for name in sorted(registered())])
    told = ["title", "family", "year", "version", "needs", "sends", "variants", "paper"]
    return facts.set_index("name")[told]


def hyperparameters(method: str, plugins: Plugins = ()) -> pd.DataFrame:
    """The hyper-parameters of a method: default, what papers use, valid values and meaning."""
    from repfl.bench.grid import catalog
    from repfl.bench.grid.cell import entry

    admit(plugins)
    columns = ["name", "default", "paper", "valid", "meaning"]
    facts = catalog.option_facts(entry(method).cls.HP)
    return pd.DataFrame(facts, columns=columns).set_index("name")


def recipe(name: str, scale: str = "smoke", **changes: Any) -> Recipe:
    """A paper's recipe at a scale, by `paper/recipe` or a name that is unique, with changes:
    `recipe("fedpurin/cifar10-dir0.1", "desk", clients=20, training={"rounds": 5})`.
    """
    from repfl.bench.grid.catalog import find_recipe
    from repfl.bench.grid.recipes import merge, recipe_from, recipe_values

    full, found, _ = find_recipe(name, scale)
    if not changes:
        return found
    return recipe_from(merge(recipe_values(found), changes), f"recipe {full!r} with changes")


def recipes(scale: str = "smoke") -> pd.DataFrame:
    """The papers' recipes at a scale, by the name that `run` and `recipe` take."""
    from repfl.bench.errors import unknown
    from repfl.bench.grid import grid as grids

    if scale not in grids.SCALES:
        raise unknown("scale", scale, grids.SCALES)
    rows = []
    for paper, path in grids.files().items():
        file = grids.read(path)
        for name in file.file.recipes if scale in file.file.scales else ():
            found = file.recipe(name, scale)
            rows.append(
                {
                    "recipe": f"{paper}/{name}",
                    "label": file.label(name),
                    "dataset": found.dataset,
                    "partition": found.partition.rule,
                    "options": dict(found.partition.options),
                    "model": found.model,
                    "clients": found.clients,
                    "participation": found.participation,
                    "rounds": found.training.rounds,
                    "epochs": found.training.epochs,
                    "batch": found.training.batch,
                    "lr": found.training.lr,
                }
            )
    return pd.DataFrame(rows).set_index("recipe")


def data() -> pd.DataFrame:
    """The datasets: whether they are here, their size, and what needs them. `repfl data get NAME`
    and `repfl data import NAME` bring those that are not.
    """
    from repfl.bench.grid.catalog import all_dataset_facts

    facts = pd.DataFrame(all_dataset_facts())
    facts["samples"] = [sum(splits.values()) for splits in facts["splits"]]
    facts["classes"] = facts["classes"].map(len)
    told = ["title", "present", "samples", "classes", "shape", "licence", "needed_by"]
    return facts.set_index("name")[told]
