"""The gate: silent when nothing moves, loud when anything does, on known platforms and on
others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repfl.algorithms import core
from repfl.algorithms.core import method as registry
from repfl.algorithms.fedavg import FedAvg
from repfl.bench.check import contract, gate, gate_cells
from repfl.bench.errors import UserError
from repfl.bench.grid.grid import Grid
from tests.bench.conftest import Here

METHOD = ("--method", "fedavg")
SHORT = """
title = "Three recipes in short"
year = 2026
scales.smoke.seeds = [1]

[recipes.everybody]
dataset = "digits"
model = "tiny-bn"
clients = 6
partition = { rule = "client-dirichlet", options = { alpha = 0.5, train = 40, test = 30 } }
training = { rounds = 2, epochs = 1, batch = 20, lr = 0.4 }
evaluation = { points = ["start", "pre_agg", "post_agg"] }

[recipes.cohort]
dataset = "digits"
model = "tiny-bn"
clients = 8
participation = 0.5
partition = { rule = "class-dirichlet", options = { alpha = 0.5, minimum = 10 } }
training = { rounds = 2, epochs = 1, batch = 20, lr = 0.05 }
evaluation = { points = ["start", "pre_agg", "post_agg"] }

[recipes.star-pfl]
dataset = "digits"
model = "tiny-bn"
clients = 6
norm = "raw"
classes = 11
training = { rounds = 2, epochs = 1, batch = 20, lr = 0.05, weighting = "uniform" }
evaluation = { points = ["pre_agg", "post_agg"], point = "pre_agg", rule = "best-val" }
[recipes.star-pfl.partition]
rule = "pairwise-dirichlet"
seed = 5
options = { alpha = 0.1, train_share = 0.06, test_share = 0.8 }

[artefacts.papers]
kind = "table"
title = "A paper"
cells = [{ recipes = ["star-pfl"], rows = [{ label = "FedAvg", method = "fedavg" }] }]
"""
"""A learning rate with which the last round is not the best; weights that differ from those of
samples.
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three recipes in short, computed in this process, so that methods can be changed under the
    gate.
    """
    (tmp_path / "gate.toml").write_text(SHORT)
    short = Grid(tmp_path / "gate.toml")
    monkeypatch.setattr(gate_cells, "grid", lambda: short)
    monkeypatch.setattr(gate_cells, "RECIPES_FOR_FIRST_SEED", ())
    seeds(monkeypatch, 1, 2)
    monkeypatch.setattr("repfl.bench.run.runner.choose_executor", lambda *_: ("inline", 1))
    # the contract of a named method has tests of its own
    monkeypatch.setattr(contract, "check", lambda *_: [])


def seeds(patch: pytest.MonkeyPatch, *values: int) -> None:
    for module in (gate, gate_cells):
        patch.setattr(module, "SEEDS", values)


@pytest.fixture
def reference(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, here: Here) -> Path:
    """A reference of one's own, from one that is made once."""
    kept = tmp_path_factory.getbasetemp() / "reference.json"
    if not kept.exists():
        accept = ("check", "--accept", "--reason", "a first look", "--reference", kept)
        assert here(*accept, *METHOD).code == 0
    path = tmp_path / "reference.json"
    path.write_text(kept.read_text())
    return path


def louder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that steps a little too far."""
    proper = FedAvg.round

    def wrong(self: FedAvg, state: Any, fed: Any) -> Any:
        new = proper(self, state, fed)
        return {n: 1.02 * t if t.is_floating_point() else t for n, t in new.items()}

    monkeypatch.setattr(FedAvg, "round", wrong)


def test_a_changed_method_is_caught_where_it_first_differs(
    reference: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = here("check", "--reference", reference, *METHOD)
    assert (said.code, "5 cells of 1 methods" in said.out, "nothing moved" in said.out) == (0, 1, 1)
    louder(monkeypatch)
    said = here("check", "--reference", reference, *METHOD)
    assert said.code == 1
    lines = [line.split()[:2] for line in said.out.splitlines() if line.startswith("fedavg")]
    assert lines == [["fedavg", recipe] for recipe in ("everybody", "cohort", "star-pfl")]
    assert "round 1, theta/" in said.out
    assert "+2 %" in said.out
    assert "a first look" in said.out
    assert "fedavg: numbers moved under the same version; raise the method's version" in said.out


def test_a_raised_version_is_not_asked_for_again(
    reference: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    louder(monkeypatch)
    asked = ("check", "--reference", reference, *METHOD)
    with monkeypatch.context() as patched:
        entry = registry.methods()["fedavg"]
        patched.setitem(registry._REGISTRY, "fedavg", replace(entry, version=2))
        said = here(*asked)
        assert said.code == 1
        assert "1 -> 2" in said.out
        assert "under the same version" not in said.out
    monkeypatch.setattr(core, "ENGINE", core.ENGINE + 1)
    assert "under the same version" not in here(*asked).out


def test_a_new_reference_keeps_the_reason_and_says_what_moved(
    reference: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    here("check", "--accept", "--reason", "a second look", "--reference", reference, *METHOD)
    values = json.loads(reference.read_text())
    assert [note["reason"] for note in values["history"]] == ["a first look", "a second look"]
    assert values["history"][1]["moved"] == []
    louder(monkeypatch)
    here("check", "--accept", "--reason", "louder is better", "--reference", reference, *METHOD)
    assert len(json.loads(reference.read_text())["history"][2]["moved"]) == 5


def test_what_one_side_lacks_is_a_finding(
    reference: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds(monkeypatch, 2, 3)
    said = {
        (move.recipe, move.seeds): move.why for move in gate.check(reference, ["fedavg"], 1).moved
    }
    assert "not in the reference" in said["everybody", (3,)]
    assert "no longer a cell of the gate" in said["everybody", (1,)]


def test_a_broken_reference_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    for text in ("", "{", "[]", '{"schema": 1, "cells": {}, "history": []}', '{"schema": 2}'):
        path.write_text(text)
        with pytest.raises(UserError, match="is not a reference file"):
            gate.read_reference(path)
