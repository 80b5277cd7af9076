"""Grid files: which cells they stand for. How wrong ones are refused is in test_wrong_input."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.grid.grid import Grid, read
from repfl.bench.grid.plan import Selection, plan
from tests.bench.conftest import GRID, ROOT, Planning

SCALE = """
[scales.desk]
seeds = [5]
recipe = { training = { rounds = 7 }, clients = 4 }
methods = { fedpurin = { beta = 3 } }
[scales.desk.recipes]
three = { clients = 6 }
[artefacts.table2]
kind = "table"
title = "T"
[[artefacts.table2.cells]]
rows = [{ label = "F", method = "fedpurin", hp = { beta = 9, tau = 0.2 } }]
recipes = ["two", "three"]
scales = ["smoke", "desk"]
seeds = [8]
evaluation = { tallies = ["mask"] }
[[artefacts.table2.cells]]
rows = [{ label = "for this scale alone", method = "fedpurin", hp = { beta = 9 } }]
recipes = ["two"]
scales = ["desk"]
"""


def test_scales_change_recipes_and_hyperparameters(planned: Planning) -> None:
    items = planned(GRID + SCALE, "table2", scale="desk")
    assert [(item.column, item.cell.recipe.clients, item.cell.seed) for item in items] == [
        ("two", 4, 8),
        ("three", 6, 8),
        ("two", 4, 5),
    ]
    assert [item.cell.hp.beta for item in items] == [3, 3, 9]
    cell = items[0].cell
    assert (cell.hp.tau, cell.recipe.evaluation.tallies) == (0.2, ("mask",))
    assert (cell.recipe.training.rounds, cell.recipe.training.batch) == (7, 10)


CHILDREN = """
[recipes.parent]
inherit = "two"
partition = { rule = "iid", seed = 3, val_share = 0.2, options = { test_share = 0.3 } }
newcomers = { share = 0.5, samples = 5, epochs = 1 }
[recipes.complete]
inherit = "parent"
partition = { rule = "class-dirichlet", options = { alpha = 0.5, minimum = 20 } }
[recipes.changed]
inherit = "complete"
partition.options.alpha = 0.1
[recipes.replaced]
inherit = "complete"
partition = { rule = "class-dirichlet", options = { alpha = 0.2 } }
[recipes.fewer]
inherit = "replaced"
unset = ["newcomers", "partition.val_share"]
"""


def test_a_child_changes_replaces_or_unsets_what_it_inherits(tmp_path: Path) -> None:
    (tmp_path / "tests.toml").write_text(GRID + CHILDREN)
    grid = Grid(tmp_path / "tests.toml")
    changed, replaced, fewer, whole = (
        grid.recipe(name, "smoke") for name in ("changed", "replaced", "fewer", "complete")
    )
    assert whole.partition.options == {"alpha": 0.5, "minimum": 20, "test_share": 0.25}
    assert changed.partition.options == {"alpha": 0.1, "minimum": 20, "test_share": 0.25}
    assert replaced.partition.options["alpha"] == 0.2
    assert (whole.partition.seed, whole.partition.val_share) == (3, 0.2)
    assert replaced.newcomers is not None
    assert (fewer.newcomers, fewer.partition.val_share, fewer.partition.seed) == (None, None, 3)


SHORTHANDS = """
[columns]
both = ["two", "three"]
[rows]
tuned = [{ label = "β = {beta}, τ = {tau}", method = "fedpurin", hp = { hessian = true } }]
[scales.desk]
seeds = [0]
only = ["t*o"]
[scales.desk.recipes]
"t*" = { clients = 5 }
two = { clients = 4 }
[artefacts.long]
kind = "table"
title = "T"
[[artefacts.long.cells]]
rows = [
    { label = "β = 2, τ = 0.5", method = "fedpurin", hp = { hessian = true, beta = 2, tau = 0.5 } },
    { label = "β = 2, τ = 1", method = "fedpurin", hp = { hessian = true, beta = 2, tau = 1.0 } },
]
recipes = ["two", "three"]
[[artefacts.long.cells]]
rows = [{ label = "own", method = "fedpurin", hp = { bn = "full", beta = 7 } }]
recipes = ["two"]
[[artefacts.long.cells]]
rows = [{ label = "own", method = "fedpurin", hp = { bn = "full", beta = 8 } }]
recipes = ["three"]
[artefacts.short]
kind = "table"
title = "T"
[[artefacts.short.cells]]
like = "tuned"
sweep = { beta = [2], tau = [0.5, 1.0] }
columns = "both"
[[artefacts.short.cells]]
rows = [{ label = "own", method = "fedpurin", hp = { bn = "full" } }]
per = { two = { beta = 7 }, three = { beta = 8 } }
[artefacts.same]
kind = "figure"
title = "F"
like = "short"
"""


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_shorthands_stand_for_the_same_cells_as_what_is_written_out(
    planned: Planning, scale: str
) -> None:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for item in planned(GRID + SHORTHANDS, scale=scale):
        found.setdefault(item.artefact, []).append((item.cell.id, item.row, item.column))
    assert found["short"] == found["same"] == found["long"]
    assert len(set(found["long"])) == {"smoke": 12, "desk": 3}[scale]


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
[recipes.written-out]
inherit = "two"
clients = 3
partition = { options = { alpha = 0.1 } }
[artefacts.each]
kind = "table"
title = "T"
[[artefacts.each.cells]]
rows = [{ label = "FedAvg", method = "fedavg" }]
recipes = ["two-0.1-3", "written-out", "child"]
seeds = [0]
"""


def test_a_recipe_that_is_written_once_for_several_values(
    planned: Planning, tmp_path: Path
) -> None:
    assert len({item.cell.id for item in planned(GRID + EACH, "each")}) == 1
    grid = Grid(tmp_path / "tests.toml")
    for alpha in (0.1, 1.0):
        for clients in (2, 3):
            name = f"two-{alpha}-{clients}"
            recipe = grid.recipe(name, "smoke")
            assert (recipe.clients, recipe.partition.options["alpha"]) == (clients, alpha)
            assert grid.label(name) == f"{clients} clients at {alpha}"
            assert grid.file.recipes[name].printed["setting"] == f"alpha={alpha}"
    assert grid.file.recipes["child"].printed == {}


# -- sweeps ----------------------------------------------------------------------------------------

SWEPT = """
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


def test_a_sweep_takes_fields_of_the_recipe_beside_hyperparameters(planned: Planning) -> None:
    items = planned(GRID + SWEPT, "rates")
    assert len(items) == len({item.cell.id for item in items}) == 8
    found = {(item.row, item.cell.recipe.training.lr, item.cell.hp.tau) for item in items}
    assert found == {(f"{lr}, {tau}", lr, tau) for lr in (0.1, 0.01) for tau in (0.2, 0.5)}
    # it stands above what a scale changes
    scale = "[scales.desk]\nseeds = [5]\nrecipe = { training = { lr = 0.5, rounds = 7 } }\n"
    items = planned(GRID + SWEPT + scale, "rates", scale="desk")
    trainings = [item.cell.recipe.training for item in items]
    assert {(each.lr, each.rounds) for each in trainings} == {(0.1, 7), (0.01, 7)}


def test_what_goes_across_makes_columns_that_say_so(planned: Planning) -> None:
    found = planned(GRID + SPREAD, "spread")
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


def test_the_example_grids_have_cells_at_every_scale_that_they_name() -> None:
    for file in (ROOT / "bench" / "examples").glob("*.toml"):
        for scale in read(file).file.scales:
            assert plan(Selection(files=[file], scale=scale)), (file, scale)


def test_a_grid_toml_is_called_by_its_folder_from_wherever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "my_mixes").mkdir()
    (folder / "grid.toml").write_text(GRID)
    monkeypatch.chdir(folder)
    for path in (folder / "grid.toml", Path("grid.toml"), Path("../my_mixes/grid.toml")):
        assert Grid(path).paper == "my-mixes"
