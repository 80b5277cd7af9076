"""Grid files: what they mean, and how the wrong ones are refused with file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid.grid import Grid
from repfl.bench.grid.plan import Selection, plan
from tests.bench.conftest import GRID


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tests.toml"
    path.write_text(text)
    return path


def refused(tmp_path: Path, text: str) -> str:
    """Return the one line with which a grid is refused when it is planned."""
    with pytest.raises(UserError) as caught:
        plan(Selection(files=[write(tmp_path, text)]))
    said = str(caught.value)
    assert "\n" not in said
    assert "tests.toml:" in said
    return said


def test_scales_change_recipes_and_hyperparameters(tmp_path: Path) -> None:
    scale = """
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
    planned = plan(
        Selection(files=[write(tmp_path, GRID + scale)], scale="desk", artefacts=["tests/table2"])
    )
    assert [(item.column, item.cell.recipe.clients, item.cell.seed) for item in planned] == [
        ("two", 4, 8),
        ("three", 6, 8),
        ("two", 4, 5),
    ]
    assert [item.cell.hp.beta for item in planned] == [3, 3, 9]
    assert planned[0].cell.hp.tau == 0.2
    assert planned[0].cell.recipe.training.rounds == 7
    assert planned[0].cell.recipe.training.batch == 10
    assert planned[0].cell.recipe.evaluation.tallies == ("mask",)


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
    grid = Grid(write(tmp_path, GRID + CHILDREN))
    changed, replaced, fewer, whole = (
        grid.recipe(name, "smoke") for name in ("changed", "replaced", "fewer", "complete")
    )
    assert whole.partition.options == {"alpha": 0.5, "minimum": 20, "test_share": 0.25}
    assert changed.partition.options == {"alpha": 0.1, "minimum": 20, "test_share": 0.25}
    assert replaced.partition.options["alpha"] == 0.2
    assert (whole.partition.seed, whole.partition.val_share) == (3, 0.2)
    assert replaced.newcomers is not None
    assert (fewer.newcomers, fewer.partition.val_share, fewer.partition.seed) == (None, None, 3)


@pytest.mark.parametrize(
    ("rule", "options", "words"),
    [
        ("iid", "test_share = 0.2", "test_share .*: leave it out"),
        ("client-dirichlet", "alpha = 1, train = 100000", "train = 100,000 is more per client"),
        ("class-dirichlet", "alpha = 1, minimum = 9000", "need more than the"),
        ("domain", "", "needs a dataset with domains"),
        ("class-shards", "classes = 3", "must be a multiple of the 10"),
        ("n-cls", "classes = 11", "cannot hold 11 of 10 classes"),
    ],
)
def test_a_plan_refuses_cells_that_cannot_run(
    tmp_path: Path, rule: str, options: str, words: str
) -> None:
    partition = f'partition = {{ rule = "{rule}", options = {{ {options} }} }}'
    assert re.search(words, refused(tmp_path, re.sub("partition = .*", partition, GRID, count=1)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("year = 2026", "year = ", ["tests.toml:3:"]),
        ("year = 2026", "year = 'x'", ["tests.toml: year = 'x'", "valid integer"]),
        ("[scales.smoke]", "[scales.smok]", ["smok"]),
        ('kind = "table"', 'kind = "tabel"', ["table1.kind = 'tabel'", "'table' or 'figure'"]),
        ('inherit = "two"', 'inherit = "tow"', ["unknown recipe 'tow'", "two"]),
        ('inherit = "two"', 'inherit = "three"', ["inherits from itself"]),
        ("seeds = [0, 1]", "seeds = [-1]", ["seeds.0 = -1", "greater than or equal to 0"]),
        ("seeds = [0, 1]", "seeds = []", ["seeds"]),
        ("seeds = [0, 1]", f"seeds = [{10**20}]", ["seeds.0 = 1000", "less than 4294967296"]),
        ("batch = 10", "batch_size = 10", ["unknown field 'training.batch_size'", "mean batch"]),
        ('"three"]', '"thre"]', ["unknown recipe 'thre'", "three"]),
        ('method = "fedavg"', 'method = "fedavgg"', ["unknown method 'fedavgg'", "FedAvg"]),
        ("clients = 2", "clients = 2\nclints = 3", ["unknown field 'clints'", "clients"]),
        ("lr = 0.1", "lr = 1979-05-27", ["tests.toml"]),
        ("alpha = 0.5", "alpha = -0.5", ["alpha"]),
        ('like = "tuned"', 'like = "tund"', ["short.cells.0.like: unknown rows 'tund'"]),
        ('columns = "both"', 'columns = "bot"', ["unknown columns 'bot'", "both"]),
        ('like = "short"', 'like = "shrt"', ["unknown artefact 'shrt'", "short"]),
        ('like = "short"', 'like = "same"', ["like another"]),
        ('both = ["two", "three"]', 'both = ["two", "tree"]', ["unknown recipe 'tree'", "three"]),
        ("{ beta = 7 }, three", "{ beta = 7 }, tree", ["unknown recipe 'tree'", "three"]),
        ('only = ["t*o"]', 'only = ["x*"]', ["only.x*: unknown recipe 'x*'"]),
        ('"t*" = {', '"x*" = {', ["unknown recipe 'x*'"]),
        ("β = {beta}, τ = {tau}", "β = {beta}", ["two rows are called 'β = 2'"]),
        ('columns = "both"', "", ["needs rows (or like) and recipes"]),
    ],
)
def test_wrong_grids_are_refused_with_file_and_place(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    text = GRID + SHORT
    assert old in text
    said = refused(tmp_path, text.replace(old, new, 1))
    assert all(word in said for word in words), said


SHORT = """
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
    tmp_path: Path, scale: str
) -> None:
    path = write(tmp_path, GRID + SHORT)
    found: dict[str, list[tuple[str, str, str]]] = {}
    for item in plan(Selection(files=[path], scale=scale)):
        found.setdefault(item.artefact, []).append((item.cell.id, item.row, item.column))
    assert found["short"] == found["same"]
    assert found["short"] == found["long"]
    assert len(set(found["long"])) == {"smoke": 12, "desk": 3}[scale]


def test_a_grid_toml_is_called_by_its_folder_from_wherever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "my_mixes").mkdir()
    (folder / "grid.toml").write_text(GRID)
    monkeypatch.chdir(folder)
    for path in (folder / "grid.toml", Path("grid.toml"), Path("../my_mixes/grid.toml")):
        assert Grid(path).paper == "my-mixes"
