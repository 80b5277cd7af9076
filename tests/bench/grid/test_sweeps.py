"""Sweeps over hyper-parameters and over fields of the recipe, in rows and across columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from tests.bench.conftest import GRID

RATES = """
[artefacts.rates]
kind = "table"
title = "T"
[[artefacts.rates.cells]]
rows = [{ label = "{training.lr}, {tau}", method = "fedpurin" }]
sweep = { training.lr = [0.1, 0.01], tau = [0.2, 0.5] }
recipes = ["two"]
"""
SPREAD = """
[artefacts.spread]
kind = "table"
title = "T"
[[artefacts.spread.cells]]
rows = [{ label = "FedAvg", method = "fedavg", recipe = { training = { epochs = 3 } } }]
across = { "partition.options.alpha" = [0.1, 1.0], recipe.clients = [2, 4] }
recipes = ["two"]
seeds = [0]
"""


def planned(tmp_path: Path, text: str, artefact: str, scale: str = "smoke") -> list[Planned]:
    path = tmp_path / "tests.toml"
    path.write_text(text)
    return plan(Selection(files=[path], artefacts=[f"tests/{artefact}"], scale=scale))


def test_a_sweep_takes_fields_of_the_recipe_beside_hyperparameters(tmp_path: Path) -> None:
    found = planned(tmp_path, GRID + RATES, "rates")
    assert len(found) == len({item.cell.id for item in found}) == 8
    assert {
        (item.row, item.cell.recipe.training.lr, item.cell.hp.tau, item.column) for item in found
    } == {
        ("0.1, 0.2", 0.1, 0.2, "two"),
        ("0.1, 0.5", 0.1, 0.5, "two"),
        ("0.01, 0.2", 0.01, 0.2, "two"),
        ("0.01, 0.5", 0.01, 0.5, "two"),
    }


def test_what_goes_across_makes_columns_that_say_so(tmp_path: Path) -> None:
    found = planned(tmp_path, GRID + SPREAD, "spread")
    assert [(item.column, item.column_label) for item in found] == [
        (
            f"two[partition.options.alpha={alpha},recipe.clients={clients}]",
            f"two clients, alpha = {alpha}, clients = {clients}",
        )
        for alpha in ("0.1", "1")
        for clients in (2, 4)
    ]
    assert [item.cell.recipe.clients for item in found] == [2, 4, 2, 4]
    assert {item.cell.recipe.training.epochs for item in found} == {3}


def test_a_sweep_stands_above_what_a_scale_changes(tmp_path: Path) -> None:
    scale = "[scales.desk]\nseeds = [5]\nrecipe = { training = { lr = 0.5, rounds = 7 } }\n"
    found = planned(tmp_path, GRID + RATES + scale, "rates", "desk")
    assert {item.cell.recipe.training.lr for item in found} == {0.1, 0.01}
    assert {item.cell.recipe.training.rounds for item in found} == {7}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("training.lr = [0.1, 0.01]", "training.rl = [0.1]", ["unknown field 'training.rl'", "lr"]),
        ("training.lr = [0.1, 0.01]", "training.lr = [-1]", ["training.lr = -1"]),
        ("training.lr = [0.1, 0.01]", "training.lr = []", ["training.lr = []", "at least 1"]),
        ("{training.lr}, {tau}", "FedPURIN", ["into the label, as in 'NAME {training.lr} {tau}'"]),
        ("recipe.clients = [2, 4]", "clients = [2, 4]", ["across: 'clients'", "recipe.clients"]),
        ("recipes = [\"two\"]\nseeds", 'sweep = { recipe.clients = [3] }\nrecipes = ["two"]\nseeds',
         ["recipe.clients is swept and goes across"]),
    ],
)  # fmt: skip
def test_wrong_sweeps_are_refused_where_they_stand(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    text = GRID + RATES + SPREAD
    assert text.count(old) == 1
    with pytest.raises(UserError) as caught:
        [planned(tmp_path, text.replace(old, new), name) for name in ("rates", "spread")]
    assert "tests.toml: artefacts." in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("trainin.lr", "'trainin'; did you mean training"), ("lr", "'lr'; did you mean training.lr")],
)
def test_a_wrong_name_is_told_before_the_label_that_lacks_it(
    tmp_path: Path, name: str, words: str
) -> None:
    text = RATES.replace("{training.lr}, {tau}", "FedPURIN").replace("training.lr", name)
    with pytest.raises(UserError, match=words):
        planned(tmp_path, GRID + text, "rates")
