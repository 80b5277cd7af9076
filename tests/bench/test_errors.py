"""Every refusal is one line that names the field, its value, what is valid, and the nearest
name.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid.catalog import find_recipe
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.methods import parse_spec
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.recipes import recipe_from
from repfl.datasets.core.registry import get
from tests.bench.conftest import RECIPE, recipe

TRAINING = RECIPE["training"]
PAIRS = {"rule": "pairwise-dirichlet", "options": {"alpha": 1.0}}
LATE = {"share": 0.1, "samples": 10, "epochs": 1}


def refused(**changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        recipe_from({**RECIPE, **changes}, "grid.toml:3")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"datset": "digits"}, ["grid.toml:3", "unknown field 'datset'", "dataset"]),
        ({"dataset": "digit"}, ["unknown dataset 'digit'", "digits", "(or a missing plug-in)"]),
        ({"model": "tny"}, ["unknown model 'tny'", "tiny"]),
        ({"augment": "flop"}, ["unknown augment 'flop'", "flip"]),
        ({"norm": "unt"}, ["norm 'unt'", "unit"]),
        ({"clients": 0}, ["clients = 0", "greater than or equal to 1"]),
        ({"clients": "x"}, ["clients = 'x'", "valid integer"]),
        ({"participation": 2}, ["participation = 2", "less than or equal to 1"]),
        ({"sampling": "keed"}, ["sampling = 'keed'", "'keyed'"]),
        ({"training": {**TRAINING, "lr": -1}}, ["training.lr = -1", "greater than 0"]),
        ({"training": {**TRAINING, "lr": nan}}, ["training.lr = nan", "a finite number"]),
        (
            {"partition": {"rule": "iid", "options": {"x": [0, inf]}}},
            ["partition.options.x.1 = inf"],
        ),
        ({"training": {**TRAINING, "momntum": 1}}, ["training.momntum", "momentum"]),
        ({"training": {"rounds": 1}}, ["training.batch", "is missing", "more"]),
        ({"training": {"rounds": 1, "batch": 8, "lr": 0.1}}, ["set one of epochs and steps"]),
        ({"training": {**TRAINING, "steps": 5}}, ["training: set one of epochs and steps"]),
        ({"training": {**TRAINING, "epochs": -1}}, ["training.epochs = -1", "greater than or"]),
        ({"training": {**TRAINING, "epochs": "two"}}, ["training.epochs = 'two'", "valid number"]),
        (
            {"training": {"rounds": 1, "epochs": 1, "lr": 0.1, "batchsize": 16}},
            ["unknown field 'training.batchsize'; did you mean batch", "(and 1 more)"],
        ),
        (
            {"partition": {"rule": "client-dirichlet", "options": {"alhpa": 1}}},
            ["no option 'alhpa'", "did you mean alpha"],
        ),
        ({"partition": {"rule": "iidd"}}, ["unknown partition.rule 'iidd'", "iid"]),
        ({"partition": 3}, ["partition = 3"]),
        ({"input": [1, 2]}, ["input"]),
        ({"classes": 3}, ["classes = 3", ">= 10"]),
        ({"evaluation": {"rule": "max", "rounds": [9]}}, ["evaluation.rounds", "1 to 3"]),
        ({"evaluation": {"rule": "best-val"}}, ["sets none apart; valid: 'last' or 'max'"]),
        ({"evaluation": {"point": "nowhere"}}, ["unknown evaluation.point 'nowhere'", "pre_agg"]),
        ({"evaluation": {"points": ["pre_agg"]}}, ["point 'post_agg'; did you mean pre_agg?"]),
        ({"input": [3, -1, 8]}, ["input = [3, -1, 8]", "channels >= 1"]),
        ({"input": [1, 16, 8]}, ["input = [1, 16, 8]", "height = width"]),
        ({"input": [1, 4, 4]}, ["height = width >= 8"]),
        ({"clients": 10**9}, ["clients = 1,000,000,000", "valid: 1 to 1,797"]),
        ({"partition": {**PAIRS, "val_share": 0.1}}, ["holds out validation samples itself"]),
        ({"newcomers": {**LATE, "share": 0.5}, "clients": 1}, ["leaves nobody to take part"]),
        ({"newcomers": {**LATE, "share": 1}}, ["newcomers.share = 1"]),
        ({"newcomers": {**LATE, "samples": 0}}, ["newcomers.samples = 0"]),
    ],
)
def test_a_wrong_recipe_is_refused_in_one_line(changes: dict[str, Any], words: list[str]) -> None:
    line = refused(**changes)
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fedprn", ["unknown method 'fedprn'", "fedpurin"]),
        ("fedpurin[taw=1]", ["unknown field 'taw'", "tau"]),
        ("fedpurin[tau=1.5]", ["tau = 1.5", "less than or equal to 1"]),
        ("fedpurin[bn=ful]", ["bn = 'ful'", "'local', 'masked' or 'full'"]),
        ("fedpurin[beta=x]", ["beta = 'x'", "valid integer"]),
    ],
)
def test_a_wrong_method_is_refused_in_one_line(text: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        build_cell(*parse_spec(text), recipe(), 0)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, 10**20])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(UserError, match="whole number >= 0"):
        build_cell("local", {}, recipe(), seed)


def test_hyphens_and_underscores_are_the_same_in_every_name_that_is_typed() -> None:
    partition = {"rule": "class-dirichlet", "options": {"alpha": 0.5, "test_share": 0.3}}
    typed = {"rule": "class_dirichlet", "options": {"alpha": 0.5, "test-share": 0.3}}
    kinds = {"dataset": "fashion_mnist", "model": "tiny-bn", "clients": 3}
    usual = recipe_from({**RECIPE, **kinds, "partition": partition}, "usual")
    other = {"dataset": "fashion-mnist", "model": "tiny_bn", "partition": typed}
    assert recipe_from({**RECIPE, **kinds, **other}, "typed") == usual
    assert parse_spec("star_pfl") == ("star-pfl", {})
    assert parse_spec("fedrep[head-epochs=2]") == ("fedrep", {"head_epochs": 2})
    cell = build_cell("lg_fedavg", {}, usual, 0)
    assert cell.id == build_cell("lg-fedavg", {}, usual, 0).id
    assert build_cell("fedrep", {"head-epochs": 2}, usual, 0).hp.head_epochs == 2


def test_selectors_and_look_ups_take_either_spelling() -> None:
    usual = Selection(artefacts=["fedpurin/table1"], columns=["cifar10-dir0.1"])
    typed = replace(usual, artefacts=["fedpurin/table_1"], columns=["cifar10_dir0.1"])
    with pytest.raises(UserError, match="unknown artefact 'fedpurin/table_1'"):
        plan(typed)  # a hyphen is another thing than nothing
    typed = replace(typed, artefacts=usual.artefacts, methods=["lg_fedavg", "fed-per"])
    with pytest.raises(UserError, match="unknown method 'fed-per'; did you mean fedper"):
        plan(typed)
    ids = [
        {item.cell.id for item in plan(replace(typed, methods=[name, "local"]))}
        for name in ("fedavg_ft", "fedavg-ft")
    ]
    assert ids[0] == ids[1]
    assert find_recipe("fedpurin/cifar10_dir0.1", None)[0] == "fedpurin/cifar10-dir0.1"
    assert get("fashion-mnist").name == "fashion_mnist"
