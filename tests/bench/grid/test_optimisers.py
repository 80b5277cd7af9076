"""Optimisers and schedules of torch.optim, from the grid file to the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repfl.algorithms.engine.optimiser import Optimiser
from repfl.bench.errors import UserError
from repfl.bench.grid.cell import Cell, from_json
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.task import Task
from repfl.bench.store.store import Store
from repfl.datasets.core.recipe import Training
from tests.bench.conftest import GRID, RECIPE, Compute, digests, recipe, stored, task

ADAMW = {"name": "AdamW", "options": {"betas": [0.9, 0.99]}}
COSINE = {"name": "CosineAnnealingLR", "options": {"T_max": 4, "eta_min": 0.001}}
TOML = """
[recipes.adamw]
inherit = "two"
training.rounds = 4
training.lr = 0.02
training.weight_decay = 0.01
training.optimiser = { name = "AdamW", options = { betas = [0.9, 0.99] } }
[recipes.cosine]
inherit = "adamw"
training.scheduler = { name = "CosineAnnealingLR", options = { T_max = 4, eta_min = 0.001 } }
[artefacts.tuned]
kind = "table"
title = "T"
[[artefacts.tuned.cells]]
rows = [{ label = "FedPer", method = "fedper" }]
recipes = ["adamw", "cosine"]
seeds = [0]
"""


def planned(tmp_path: Path) -> list[Cell]:
    (tmp_path / "tests.toml").write_text(GRID + TOML)
    chosen = Selection(files=[tmp_path / "tests.toml"], artefacts=["tests/tuned"])
    return [item.cell for item in plan(chosen)]


def test_adamw_with_a_cosine_schedule_trains_and_resumes_with_the_same_bits(
    tmp_path: Path, store: Store, compute: Compute
) -> None:
    constant, cosine = planned(tmp_path)
    assert cosine.json["recipe"]["training"]["optimiser"] == ADAMW
    assert cosine.json["recipe"]["training"]["scheduler"] == COSINE
    outcome = compute(Task(cosine, "test"), stack=8)
    whole = digests(store.root)[cosine.id]
    assert outcome.status == "done"
    record = stored(store, cosine.id)
    assert record.metrics["value"] > 0.3  # ten classes
    statuses = []
    while not statuses or statuses[-1] == "interrupted":
        statuses.append(compute(Task(cosine, "test"), stop=lambda: True, fresh=True).status)
    assert statuses == ["interrupted"] * 3 + ["done"]
    assert digests(store.root)[cosine.id] == whole
    compute(Task(constant, "test"))
    assert digests(store.root)[constant.id] != whole


def test_a_field_that_came_later_moves_no_id_while_it_has_its_default() -> None:
    before = task().cell
    assert before.id == "8b074201981c043b1c8a676de6d5955b8625faa2518380cb8bf1455613d1c174"
    explicit = {
        "newcomers": None,
        "partition": {**RECIPE["partition"], "val_share": None},
        "training": {"optimiser": None, "scheduler": None},
    }
    assert task(**explicit).cell.id == before.id
    changes: list[dict[str, Any]] = [
        {"newcomers": {"share": 0.1, "samples": 10, "epochs": 1}},
        {"partition": {**RECIPE["partition"], "val_share": 0.1}},
        {"training": {"optimiser": {"name": "SGD", "options": {"nesterov": True}}}},
        {"training": {"scheduler": COSINE}},
        {"training": {"epochs": None, "steps": 5}},
        {"training": {"epochs": 1.5}},
        {"public": {"samples": 5}},
    ]
    cells = [task(**change).cell for change in changes]
    assert len({before.id, *(cell.id for cell in cells)}) == 8
    assert [from_json(cell.json).id for cell in cells] == [cell.id for cell in cells]
    names = set(Training.__dataclass_fields__) - set(before.json["recipe"]["training"])
    assert names == {"optimiser", "scheduler", "steps"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimiser": {"name": "Adamw"}}, "training.optimiser.name 'Adamw'; did you mean AdamW"),
        ({"optimiser": {"name": "AdamW", "options": {"beta": 1}}}, "'beta'; did you mean betas"),
        ({"optimiser": {"name": "AdamW", "options": {"lr": 1}}}, "set training.lr instead"),
        ({"optimiser": {"name": "AdamW", "options": {"betas": [2, 1]}}}, "Invalid beta"),
        ({"optimiser": {"name": "LBFGS"}}, "LBFGS.*closure"),
        ({"optimiser": ADAMW, "momentum": 0.9}, "momentum"),
        ({"scheduler": {"name": "CosineLR"}}, "CosineAnnealingLR"),
        ({"scheduler": {"name": "CosineAnnealingLR"}}, "T_max"),
        ({"scheduler": {"name": "StepLR", "options": {"step": 1}}}, "did you mean step_size"),
        ({"scheduler": COSINE, "lr_decay": 0.9}, "leave one of them out"),
        ({"scheduler": {"name": "ExponentialLR", "options": {"gamma": 1e300}}}, "rate of inf"),
    ],
)
def test_a_wrong_optimiser_is_refused_in_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        recipe(training={"momentum": 0.0, **changes})
    assert "\n" not in str(caught.value)


def test_an_optimiser_that_torch_lacks_is_refused_where_a_method_names_it() -> None:
    with pytest.raises(ValueError, match=r"optimiser 'Sgd' is not valid; valid: .*SGD"):
        Optimiser(0.1, name="Sgd")
