"""Wrong recipes, methods, grids, searches and selectors are refused in one line that names the
place, the value, what is valid and the nearest name.
"""

from __future__ import annotations

import re
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from repfl.algorithms.engine.optimiser import Optimiser
from repfl.bench.grid import plugins
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.methods import parse_spec
from repfl.bench.grid.recipes import recipe_from
from tests.bench.conftest import GRID, RECIPE, Planning, recipe, refusal, says
from tests.bench.grid.test_grid import EACH, SHORTHANDS, SPREAD, SWEPT

TRAINING = RECIPE["training"]
PAIRS = {"rule": "pairwise-dirichlet", "options": {"alpha": 1.0}}
LATE = {"share": 0.5, "samples": 10, "epochs": 1}
NAN_INSIDE = {"rule": "iid", "options": {"x": [0, inf]}}
MISSPELT = {"rule": "client-dirichlet", "options": {"alhpa": 1}}
TWO_FAULTS = {"rounds": 1, "epochs": 1, "lr": 0.1, "batchsize": 16}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"datset": "digits"}, "grid.toml:3 | unknown field 'datset' | dataset"),
        ({"dataset": "digit"}, "unknown dataset 'digit' | digits | (or a missing plug-in)"),
        ({"model": "tny"}, "unknown model 'tny' | tiny"),
        ({"augment": "flop"}, "unknown augment 'flop' | flip"),
        ({"norm": "unt"}, "norm 'unt' | unit"),
        ({"clients": 0}, "clients = 0 | greater than or equal to 1"),
        ({"clients": 10**9}, "clients = 1,000,000,000 | valid: 1 to 1,797"),
        ({"training": {**TRAINING, "lr": nan}}, "training.lr = nan | a finite number"),
        ({"partition": NAN_INSIDE}, "partition.options.x.1 = inf"),
        ({"training": {"rounds": 1}}, "training.batch | is missing | more"),
        ({"training": {"rounds": 1, "batch": 8, "lr": 0.1}}, "set one of epochs and steps"),
        ({"training": TWO_FAULTS}, "field 'training.batchsize'; did you mean batch | (and 1 more)"),
        ({"partition": MISSPELT}, "no option 'alhpa' | did you mean alpha"),
        ({"partition": {"rule": "iidd"}}, "unknown partition.rule 'iidd' | iid"),
        ({"partition": {**PAIRS, "val_share": 0.1}}, "holds out validation samples itself"),
        ({"classes": 3}, "classes = 3 | >= 10"),
        ({"evaluation": {"rule": "max", "rounds": [9]}}, "evaluation.rounds | 1 to 3"),
        ({"evaluation": {"rule": "best-val"}}, "sets none apart; valid: 'last' or 'max'"),
        ({"evaluation": {"point": "nowhere"}}, "unknown evaluation.point 'nowhere' | pre_agg"),
        ({"evaluation": {"points": ["pre_agg"]}}, "point 'post_agg'; did you mean pre_agg?"),
        ({"input": [3, -1, 8]}, "input = [3, -1, 8] | channels >= 1"),
        ({"input": [1, 16, 8]}, "input = [1, 16, 8] | height = width"),
        ({"input": [1, 4, 4]}, "height = width >= 8"),
        ({"newcomers": LATE, "clients": 1}, "leaves nobody to take part"),
    ],
)
def test_recipes(changes: dict[str, Any], words: str) -> None:
    says(refusal(lambda: recipe_from({**RECIPE, **changes}, "grid.toml:3")), words)


ADAMW = {"name": "AdamW", "options": {"betas": [0.9, 0.99]}}
COSINE = {"name": "CosineAnnealingLR", "options": {"T_max": 4}}
STEP, GROWING = {"step": 1}, {"name": "ExponentialLR", "options": {"gamma": 1e300}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimiser": {"name": "Adamw"}}, "training.optimiser.name 'Adamw'; did you mean AdamW"),
        ({"optimiser": {**ADAMW, "options": {"beta": 1}}}, "'beta'; did you mean betas"),
        ({"optimiser": {**ADAMW, "options": {"lr": 1}}}, "set training.lr instead"),
        ({"optimiser": {"name": "LBFGS"}}, "LBFGS | closure"),
        ({"optimiser": ADAMW, "momentum": 0.9}, "momentum"),
        ({"scheduler": {"name": "CosineAnnealingLR"}}, "T_max"),
        ({"scheduler": {"name": "StepLR", "options": STEP}}, "did you mean step_size"),
        ({"scheduler": COSINE, "lr_decay": 0.9}, "leave one of them out"),
        ({"scheduler": GROWING}, "rate of inf"),
    ],
)
def test_optimisers_and_schedules(changes: dict[str, Any], words: str) -> None:
    says(refusal(lambda: recipe(training={"momentum": 0.0, **changes})), words)


def test_an_optimiser_that_torch_lacks_is_refused_where_a_method_names_it() -> None:
    with pytest.raises(ValueError, match=r"optimiser 'Sgd' is not valid; valid: .*SGD"):
        Optimiser(0.1, name="Sgd")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fedprn", "unknown method 'fedprn' | fedpurin"),
        ("fedpurin[taw=1]", "unknown field 'taw' | tau"),
        ("fedpurin[tau=1.5]", "tau = 1.5 | less than or equal to 1"),
        ("fedpurin[bn=ful]", "bn = 'ful' | 'local', 'masked' or 'full'"),
    ],
)
def test_methods(text: str, words: str) -> None:
    says(refusal(lambda: build_cell(*parse_spec(text), recipe(), 0)), words)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, 10**20])
def test_seeds(seed: Any) -> None:
    says(refusal(lambda: build_cell("local", {}, recipe(), seed)), "whole number >= 0")


# -- grids -----------------------------------------------------------------------------------------

WHOLE = GRID + SHORTHANDS + SWEPT + SPREAD + EACH
LR = "training.lr = [0.1, 0.01]"
UNLABELLED = 'label = "{training.lr}, {tau}"', 'label = "F"'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("year = 2026", "year = ", "tests.toml:3:"),
        ("year = 2026", "year = 'x'", "tests.toml: year = 'x' | valid integer"),
        ('kind = "table"', 'kind = "tabel"', "table1.kind = 'tabel' | 'table' or 'figure'"),
        ('inherit = "two"', 'inherit = "tow"', "unknown recipe 'tow' | two"),
        ('inherit = "two"', 'inherit = "three"', "inherits from itself"),
        ("seeds = [0, 1]", "seeds = [-1]", "seeds.0 = -1 | greater than or equal to 0"),
        ("seeds = [0, 1]", f"seeds = [{10**20}]", "seeds.0 = 1000 | less than 4294967296"),
        ("batch = 10", "batch_size = 10", "unknown field 'training.batch_size' | mean batch"),
        ('"three"]', '"thre"]', "unknown recipe 'thre' | three"),
        ('method = "fedavg"', 'method = "fedavgg"', "unknown method 'fedavgg' | FedAvg"),
        ('like = "tuned"', 'like = "tund"', "short.cells.0.like: unknown rows 'tund'"),
        ('like = "short"', 'like = "same"', "like another"),
        ("{ beta = 7 }, three", "{ beta = 7 }, tree", "unknown recipe 'tree' | three"),
        ('only = ["t*o"]', 'only = ["x*"]', "only.x*: unknown recipe 'x*'"),
        ("β = {beta}, τ = {tau}", "β = {beta}", "two rows are called 'β = 2'"),
        ('columns = "both"', "", "needs rows (or like) and recipes"),
        # sweeps
        (LR, "training.rl = [0.1]", "tests.toml: artefacts. | unknown field 'training.rl' | lr"),
        (LR, "training.lr = []", "training.lr = [] | at least 1"),
        (*UNLABELLED, "into the label, as in 'NAME {training.lr} {tau}'"),
        ("recipe.clients = [2, 4]", "clients = [2, 4]", "across: 'clients' | recipe.clients"),
        ("across = {", "sweep = { recipe.clients = [3] }\nacross = {", "is swept and goes across"),
        # recipes that are written once for several values
        ("each = { alpha = [0.1, 1.0], clients = [2, 3] }", "each = { alpha = 1 }", "is not valid"),
        ('"two-{alpha}-{clients}"', '"two-{alpha}"', "two recipes are called 'two-0.1'"),
    ],
)
def test_grids(planned: Planning, old: str, new: str, words: str) -> None:
    assert old in WHOLE
    line = refusal(lambda: planned(WHOLE.replace(old, new, 1)))
    says(line, f"tests.toml | {words}")


@pytest.mark.parametrize(
    ("rule", "options", "words"),
    [
        ("iid", "test_share = 0.2", "test_share | : leave it out"),
        ("client-dirichlet", "alpha = 1, train = 100000", "train = 100,000 is more per client"),
        ("class-dirichlet", "alpha = 1, minimum = 9000", "need more than the"),
        ("domain", "", "needs a dataset with domains"),
        ("class-shards", "classes = 3", "must be a multiple of the 10"),
        ("n-cls", "classes = 11", "cannot hold 11 of 10 classes"),
    ],
)
def test_partitions_that_cannot_be_made(
    planned: Planning, rule: str, options: str, words: str
) -> None:
    partition = f'partition = {{ rule = "{rule}", options = {{ {options} }} }}'
    text = re.sub("partition = .*", partition, GRID, count=1)
    says(refusal(lambda: planned(text)), f"tests.toml: | {words}")


# -- searches --------------------------------------------------------------------------------------

SEARCH = """
[artefacts.s]
kind = "table"
title = "S"
[[artefacts.s.cells]]
rows = [{{ label = "F", method = "{method}" }}]
recipes = ["two"]
search = {{ trials = {trials} }}
"""


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ("3", "fedavg searches nothing; valid: 1 to 4"),
        ("3, over = { lr = { log = [0.1, 1] } }", "unknown field 'lr'"),
        ("3, over = { lr = { log = [0, 1] } }", "is not a range"),
        ('3, over = { lr = { log = ["a", 1] } }', "is not a range"),
        ("3, over = { rate = { whole = [0.5, 2] } }", "is not a range"),
        ("3, over = { rate = { 'one of' = [] } }", "is not a range"),
    ],
)
def test_searches(planned: Planning, trials: str, words: str) -> None:
    text = GRID + SEARCH.format(method="fedavg", trials=trials)
    says(refusal(lambda: planned(text, "s")), words)


OWN = """
from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg

@hyperparameters
class HP:
    pull: float = param(0.5, "a pull", gt=0, {limit}, search={search})

@register("test-own", title="O", paper="none", year=2026, family="global", sends="as FedAvg")
class Own(FedAvg):
    HP = HP
"""


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('{"logg": [0.1, 2.0]}', "search of pull"),
        ('{"log": [2.0, 0.1]}', "search of pull"),
        ('{"log": 3}', "search of pull"),
        ("[0.1, 0.5]", "search of pull = [0.1, 0.5] is not valid; valid: | log whole"),
        ('{"log": [0.1, 200.0]}', "less than or equal to 10"),
    ],
)
def test_ranges_that_a_method_cannot_search(
    tmp_path: Path, planned: Planning, declared: str, words: str
) -> None:
    (tmp_path / "own.py").write_text(OWN.format(limit="le=10", search=declared))
    plugins.load([str(tmp_path / "own.py")])
    says(refusal(lambda: planned(GRID + SEARCH.format(method="test-own", trials=2), "s")), words)


# -- selectors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selectors", "words"),
    [
        ({"papers": ["test"]}, "unknown paper 'test'; did you mean tests"),
        ({"artefacts": ["tests/tabel1"]}, "'tests/tabel1'; did you mean tests/table1"),
        ({"artefacts": ["table1"]}, "is not of the form paper/name"),
        ({"methods": ["loca"]}, "unknown method 'loca'; did you mean local"),
        ({"datasets": ["digit"]}, "--dataset digit: no cell of | has it; did you mean digits"),
        ({"seeds": [7]}, "--seed 7: no cell of | has it; valid: 0, 1"),
        ({"columns": ["thre"]}, "--column thre: no cell of | has it; did you mean three"),
        ({"scale": "smoek"}, "unknown scale 'smoek'; did you mean smoke"),
        ({"scale": "desk"}, "has no cells at scale desk"),
    ],
)
def test_selectors(planned: Planning, selectors: dict[str, Any], words: str) -> None:
    says(refusal(lambda: planned(**selectors)), words)
