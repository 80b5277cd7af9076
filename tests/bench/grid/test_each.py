"""Recipes that are written once for several values."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid.grid import Grid
from repfl.bench.grid.plan import Selection, plan
from tests.bench.conftest import GRID

EACH = """
[recipes."two-{alpha}-{clients}"]
each = { alpha = [0.1, 1.0], clients = [2, 3] }
inherit = "two"
label = "{clients} clients at {alpha}"
printed = { dataset = "Digits", setting = "alpha={alpha}" }
clients = "{clients}"
partition = { options = { alpha = "{alpha}" } }

[recipes.child]
inherit = "two-0.1-3"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "tests.toml"
    path.write_text(text)
    return path


def test_a_table_stands_for_one_recipe_per_combination_of_values(tmp_path: Path) -> None:
    grid = Grid(written(tmp_path, GRID + EACH))
    for alpha in (0.1, 1.0):
        for clients in (2, 3):
            name = f"two-{alpha}-{clients}"
            recipe = grid.recipe(name, "smoke")
            assert (recipe.clients, recipe.partition.options["alpha"]) == (clients, alpha)
            assert grid.label(name) == f"{clients} clients at {alpha}"
            assert grid.file.recipes[name].printed["setting"] == f"alpha={alpha}"
    assert grid.recipe("child", "smoke").clients == 3
    assert grid.file.recipes["child"].printed == {}


def test_a_recipe_written_once_is_the_same_cell_as_one_written_out(tmp_path: Path) -> None:
    artefact = """
[artefacts.other]
kind = "table"
title = "T"
[[artefacts.other.cells]]
rows = [{ label = "FedAvg", method = "fedavg" }]
recipes = ["NAME"]
"""
    out = """
[recipes.written-out]
inherit = "two"
clients = 3
partition = { options = { alpha = 0.1 } }
"""
    ids = []
    for text, name in ((EACH, "two-0.1-3"), (out, "written-out")):
        path = written(tmp_path, GRID + text + artefact.replace("NAME", name))
        selection = Selection(files=[path], artefacts=["tests/other"])
        ids.append([item.cell.id for item in plan(selection)])
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[recipes."one"]\neach = { alpha = [0.1, 0.2] }\n', "two recipes are called 'one'"),
        ('[recipes."{a}"]\neach = { a = 1 }\n', "is not valid; valid: { alpha = [0.1, 0.5] }"),
        ('[recipes."{a}"]\neach = { a = [] }\n', "is not valid; valid: { alpha = [0.1, 0.5] }"),
    ],
)
def test_a_mistake_in_each_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        Grid(written(tmp_path, GRID + text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
