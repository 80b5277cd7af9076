"""What cells need that is not here."""

from __future__ import annotations

from functools import lru_cache

from repfl.bench.errors import one_line


@lru_cache(maxsize=64)
def data_absent(dataset: str) -> str:
    """Why a dataset cannot be opened; empty when it can."""
    from repfl.bench.cells import plugins
    from repfl.datasets.core import registry
    from repfl.datasets.core.errors import DataError

    if registry.get(dataset).embedded and plugins.origin("dataset", dataset) is None:
        return ""  # in a library without which repfl is not installed
    from repfl.datasets.core.store import open_dataset

    try:
        open_dataset(dataset)
    except DataError as error:
        return one_line(error)
    return ""
