"""What cells need that is not here, or no longer is what it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from repfl.bench.errors import one_line


@lru_cache(maxsize=64)
def data_absent(dataset: str) -> str:
    """Why a dataset cannot be opened; empty when it can."""
    from repfl.bench.cells import plugins
    from repfl.datasets.core import registry
    from repfl.datasets.core.errors import DataError

    if registry.get(dataset).embedded and plugins.origin("dataset", dataset) is None:
        return ""  # in a library without which repfl is not installed
    from repfl.datasets.core.cache import open_dataset

    try:
        open_dataset(dataset)
    except DataError as error:
        return one_line(error)
    return ""


class Moved(NamedTuple):
    """A split that is not what a number was computed from."""

    split: str
    made: str | None
    here: str | None

    def __str__(self) -> str:
        return f"{self.split} had fingerprint {_short(self.made)}, and here has {_short(self.here)}"


def _short(mark: str | None) -> str:
    return mark[:12] if mark else "none"


def data_here(dataset: str) -> dict[str, str]:
    """The fingerprint of every split, as provenance tells it; nothing where there are no data."""
    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.errors import DataError

    try:
        known = open_dataset(dataset).fingerprints
    except DataError:
        return {}
    return {f"{dataset}/{split}": mark for split, mark in known.items()}


def data_moved(made: Mapping[str, str]) -> Iterator[Moved]:
    """The splits, of the data sets that provenance names and that are here, that differ."""
    for dataset in dict.fromkeys(name.partition("/")[0] for name in made):
        here = data_here(dataset)
        then = {name: mark for name, mark in made.items() if name.partition("/")[0] == dataset}
        for name in sorted(here.keys() | then) if here else ():
            if here.get(name) != then.get(name):
                yield Moved(name, then.get(name), here.get(name))
