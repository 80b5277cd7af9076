"""repfl: a benchmark suite with a reproducibility harness for personalised federated learning.

    import repfl

    result = repfl.run("fedavg", "fedpurin/cifar10-dir0.1", seed=0, scale="smoke")
    result.accuracy, result.curves, result.clients

`run` computes one cell and `grid` many; `open` steps through one by hand. `load`, `curves` and
`clients` give what is stored or came with the code as data frames; `client_model` and `client_data`
give a client's model and data; `table` is a paper's table beside ours, `compare` the difference of
two of its rows; `methods`, `hyperparameters`, `recipes`, `recipe` and `data` say what there is.
What cannot be done is a `UserError`: one line with the nearest valid choice.

The four folders of the repository are imported below this name, by symbolic links in a clone and as
ordinary folders in a wheel, so that they live beside packages that are called `datasets` too. The
links are there for type checkers, which follow neither a mapping of packages in pyproject.toml nor
the line below; that line is for clones without links, such as on Windows.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not (Path(__file__).parent / "bench").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from repfl.api import Run as Run
    from repfl.api import grid as grid
    from repfl.api import run as run
    from repfl.bench.errors import UserError as UserError
    from repfl.catalog import data as data
    from repfl.catalog import hyperparameters as hyperparameters
    from repfl.catalog import methods as methods
    from repfl.catalog import recipe as recipe
    from repfl.catalog import recipes as recipes
    from repfl.models import client_data as client_data
    from repfl.models import client_model as client_model
    from repfl.results import clients as clients
    from repfl.results import curves as curves
    from repfl.results import load as load
    from repfl.stepping import open as open  # noqa: A004
    from repfl.tables import compare as compare
    from repfl.tables import table as table

__version__ = "0.1.0"

_PLACES = {
    "repfl.bench.errors": ["UserError"],
    "repfl.api": ["Run", "grid", "run"],
    "repfl.catalog": ["data", "hyperparameters", "methods", "recipe", "recipes"],
    "repfl.models": ["client_data", "client_model"],
    "repfl.results": ["clients", "curves", "load"],
    "repfl.stepping": ["open"],
    "repfl.tables": ["compare", "table"],
}
__all__ = [
    "Run",
    "UserError",
    "client_data",
    "client_model",
    "clients",
    "compare",
    "curves",
    "data",
    "grid",
    "hyperparameters",
    "load",
    "methods",
    "open",
    "recipe",
    "recipes",
    "run",
    "table",
]


def __getattr__(name: str) -> Any:
    """Import a part of the API when it is first used: the command line needs none of it."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
