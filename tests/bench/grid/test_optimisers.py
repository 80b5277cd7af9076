"""Optimisers and schedules of torch.optim, from the grid file to the record."""

from __future__ import annotations

from typing import Any

from repfl.bench.grid.cell import from_json
from repfl.bench.run.task import Task
from repfl.bench.store.store import Store
from repfl.datasets.core.recipe import Training
from tests.bench.conftest import GRID, RECIPE, Compute, Planning, digests, stored, task

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


def test_adamw_with_a_cosine_schedule_trains_and_resumes_with_the_same_bits(
    planned: Planning, store: Store, compute: Compute
) -> None:
    constant, cosine = (item.cell for item in planned(GRID + TOML, "tuned"))
    training = cosine.json["recipe"]["training"]
    assert (training["optimiser"], training["scheduler"]) == (ADAMW, COSINE)
    assert compute(Task(cosine, "test"), stack=8).status == "done"
    whole = digests(store.root)[cosine.id]
    assert stored(store, cosine.id).value > 0.3  # ten classes
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
