"""repfl: a benchmark suite with a reproducibility harness for personalised federated learning.

    import repfl

    found = repfl.run("fedavg", "fedpurin/cifar10-dir0.1", seed=0, scale="smoke")
    found.accuracy, found.curves, found.clients

`run` computes one cell and `grid` many; `load`, `curves` and `clients` give what is stored or came
with the code as data frames; `table` is a paper's table beside ours; `methods`, `hyperparameters`,
`recipes`, `recipe` and `data` say what there is. What cannot be done is a `UserError`: one line
with the nearest valid choice.

The four folders of the repository are imported below this name, by symbolic links in a clone and as
ordinary folders in a wheel, so that they live beside packages that are called `datasets` too.
"""

# ruff: noqa: E402  the package must be able to find and load its parts first

from __future__ import annotations

from pathlib import Path

from repfl import deferred

if not (Path(__file__).parent / "bench").is_dir():  # a copy that lost its symbolic links
    __path__.append(str(Path(__file__).parents[1]))

deferred.install()

from repfl.bench.errors import UserError
from repfl.computing import Run, grid, run
from repfl.knowing import data, hyperparameters, methods, recipe, recipes
from repfl.reading import clients, curves, load, table

__version__ = "0.1.0"

__all__ = [
    "Run",
    "UserError",
    "clients",
    "curves",
    "data",
    "grid",
    "hyperparameters",
    "load",
    "methods",
    "recipe",
    "recipes",
    "run",
    "table",
]
