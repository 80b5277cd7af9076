"""A cell's id depends on what is computed, and on nothing else."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
import torch

from repfl.algorithms import models
from repfl.bench.errors import UserError
from repfl.bench.grid import recipes
from repfl.bench.grid.cell import build_cell, canonical, from_json, unmet
from repfl.bench.grid.methods import hyperparameters, options_of, parse_spec, spec
from repfl.bench.grid.plan import matches
from tests.bench.conftest import recipe, task


def test_the_id_is_that_of_the_canonical_json() -> None:
    cell = build_cell("local", {}, recipe(), 3)
    text = json.dumps(cell.json, sort_keys=True, separators=(",", ":"))
    assert canonical(cell.json) == text
    assert cell.id == sha256(text.encode()).hexdigest()
    assert cell.id == "3543e8f8a6d350f22016ce81226e157333493c1f77c4853f50b3eecceca38376"


def test_anything_that_changes_the_result_changes_the_id_and_nothing_else_does() -> None:
    cells = [
        task().cell,
        task(seed=1).cell,
        task("local").cell,
        task(clients=3).cell,
        task(training={"lr": 0.2}).cell,
        task("fedpurin").cell,
        task("fedpurin", hp={"tau": 0.4}).cell,
    ]
    assert len({cell.id for cell in cells}) == 7
    again = [from_json(json.loads(json.dumps(cell.json))) for cell in cells]
    assert [cell.id for cell in again] == [cell.id for cell in cells]
    one = build_cell("fedpurin", {"tau": 1, "beta": 5}, recipe(), 0)
    assert one.id == build_cell("fedpurin", {"beta": 5, "tau": 1.0}, recipe(), 0).id
    with pytest.raises(UserError, match="needs the fields"):
        from_json({"method": "local"})


@pytest.mark.parametrize("method", ["apfl", "flute", "fedselect"])
def test_compat_is_understood_and_stored_under_the_older_name(method: str) -> None:
    value = "code" if method == "fedselect" else "flbench"
    one, other = (
        build_cell(*parse_spec(f"{method}[{name}={value}]"), recipe(), 0)
        for name in ("mode", "compat")
    )
    assert one.id == other.id
    assert other.options["mode"] == value
    assert options_of(hyperparameters(method, {"compat": value}), ["compat"]) == {"mode": value}


def test_a_hyper_parameter_that_came_later_is_stored_where_it_says_something() -> None:
    plain, same, other = (
        build_cell("fedbabu", hp, recipe(), 0) for hp in ({}, {"rate": 1.0}, {"rate": 0.1})
    )
    assert plain.options == {"epochs": 5, "part": "model"}
    assert plain.id == same.id != other.id
    assert from_json(other.json).id == other.id
    assert [matches(each, "fedbabu", {"rate": 1.0}) for each in (plain, other)] == [True, False]
    assert [matches(each, "fedbabu", {"rate": 0.1}) for each in (plain, other)] == [False, True]


def test_specs_read_back() -> None:
    options = ("", "[tau=0.3]", "[tau=0.3,bn=full]", "[hessian=true]")
    for text in (*(f"fedpurin{each}" for each in options), "fedala[tensors=none]"):
        assert spec(*parse_spec(text)) == text
        assert "none" not in build_cell(*parse_spec(text), recipe(), 0).options.values()


def test_a_method_without_what_it_needs_says_so() -> None:
    assert "normalisation" in unmet(build_cell("fedbn", {}, recipe(), 0))
    assert unmet(build_cell("fedbn", {}, recipe(model="tiny-bn"), 0)) == ""
    half = recipe(training={"epochs": 0.5})
    assert unmet(build_cell("fedrep", {}, half, 0)).endswith("training.epochs is no whole number")
    assert unmet(build_cell("fedavg", {}, half, 0)) == ""


@pytest.mark.parametrize("model", sorted({*models.OURS} - {"conv1d"}))  # it takes signals
def test_a_model_takes_images_from_its_least_side_on_and_a_recipe_with_smaller_ones_is_refused(
    model: str,
) -> None:
    def scores(side: int) -> None:
        models.MODELS[model](1, side, 4).eval()(torch.zeros(2, 1, side, side))

    least = recipes.SMALLEST_IMAGE.get(model, 1)
    scores(least)
    if least > 1:
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            scores(least - 1)
    if least > 8:  # the digits' side
        with pytest.raises(UserError, match=f"{model}.* at least {least} x {least}.*digits"):
            recipe(dataset="digits", model=model)
