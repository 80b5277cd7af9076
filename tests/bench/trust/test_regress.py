"""The gate: silent when nothing moves, loud when anything does, on known platforms and on others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithms.fedavg import FedAvg
from bench.errors import UserError
from bench.records import provenance
from bench.trust import regress
from tests.bench.conftest import Said

Here = Callable[..., Said]
METHOD = ("--method", "fedavg")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two seeds, computed in this process, so that methods can be changed under the gate."""
    monkeypatch.setattr(regress, "SEEDS", (1, 2))
    monkeypatch.setattr("bench.running.runner.choose_executor", lambda *_: ("inline", 1))
    yield
    provenance.sources.cache_clear()


@pytest.fixture
def reference(tmp_path: Path, here: Here) -> Path:
    path = tmp_path / "reference.json"
    assert here("check", "--accept", "--reason", "a first look", "--reference", path, *METHOD).code == 0
    return path


def elsewhere(path: Path) -> None:
    """Make the reference come from another platform."""
    values = json.loads(path.read_text())
    for cell in values["cells"].values():
        cell["digests"] = {"another": "x"}
    path.write_text(json.dumps(values))


def louder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that steps a little too far."""
    proper = FedAvg.round

    def wrong(self: FedAvg, state: Any, fed: Any) -> Any:
        return {name: 1.02 * value for name, value in proper(self, state, fed).items()}

    monkeypatch.setattr(FedAvg, "round", wrong)


@pytest.mark.parametrize("other", [False, True])
def test_nothing_moves_when_nothing_changed(reference: Path, here: Here, other: bool) -> None:
    if other:
        elsewhere(reference)
    said = here("check", "--reference", reference, *METHOD)
    assert said.code == 0
    assert "4 cells of 1 methods" in said.out
    assert "nothing moved" in said.out
    assert ("bands" if other else "digests") in said.out


@pytest.mark.parametrize("other", [False, True])
def test_a_changed_method_is_caught(reference: Path, here: Here, monkeypatch: pytest.MonkeyPatch, other: bool) -> None:
    if other:
        elsewhere(reference)
    louder(monkeypatch)
    said = here("check", "--reference", reference, *METHOD)
    assert said.code == 1
    assert "fedavg everybody" in said.out
    assert "fedavg cohort" in said.out
    assert "a first look" in said.out


def test_a_new_reference_keeps_the_reason_and_other_platforms_that_agree(
    reference: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(reference)
    here("check", "--accept", "--reason", "a second platform", "--reference", reference, *METHOD)
    values = json.loads(reference.read_text())
    assert [note["reason"] for note in values["history"]] == ["a first look", "a second platform"]
    assert values["history"][1]["moved"] == []
    assert all(len(cell["digests"]) == 2 for cell in values["cells"].values())
    louder(monkeypatch)
    here("check", "--accept", "--reason", "louder is better", "--reference", reference, *METHOD)
    values = json.loads(reference.read_text())
    assert len(values["history"][2]["moved"]) == 4
    assert all("another" not in cell["digests"] for cell in values["cells"].values())


def test_what_the_reference_lacks_is_a_finding(reference: Path, here: Here) -> None:
    said = here("check", "--reference", reference, "--method", "local")
    assert said.code == 1
    assert "not in the reference" in said.out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 0, "cells": {}, "history": []}', '{"schema": 1}'])
def test_a_broken_reference_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reference.json"
    path.write_text(text)
    with pytest.raises(UserError, match="is not a reference file"):
        regress.read(path)


def test_the_gate_sees_every_method_and_every_variant() -> None:
    from algorithms.core.method import methods

    found = regress.places()
    assert {planned.cell.method for _, planned in found} == set(methods())
    assert len({planned.cell.id for _, planned in found}) == len(found)
    assert len({place.key for place, _ in found}) == len(found)
