"""The columns of a paper's tables, from its grid: a setting is written there, and only there."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from repfl.paper_tables.core.expand_each import written_out
from repfl.paper_tables.core.result import Column
from repfl.paper_tables.core.tables import Place

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class PrintedRecipe:
    """A recipe for which a paper prints numbers."""

    key: str
    label: str
    place: Place
    """Where in its published files these numbers are."""

    @property
    def column(self) -> Column:
        """The column of a table: `CIFAR-10, α = 0.1` stands below the heading `CIFAR-10`."""
        group, _, label = self.label.rpartition(", ")
        return Column(self.key, label, group)


@cache
def printed_recipes(paper: str) -> tuple[PrintedRecipe, ...]:
    """Return the recipes of a paper's grid for which it prints numbers, in the file's order."""
    path = ROOT / paper.replace("-", "_") / "grid.toml"
    tables = written_out(tomllib.loads(path.read_text("utf-8"))["recipes"])
    return tuple(
        PrintedRecipe(key, str(table["label"]), Place(**table["printed"]))
        for key, table in tables.items()
        if "printed" in table
    )
