"""`repfl check`: what the contract and the gate found is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.check import contract, gate
from repfl.bench.check.situation import Situation
from tests.bench.conftest import ROOT, Here


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check two promises in one situation; the gate has nothing to say."""

    def one(
        name: str, model: str | None = None, recipe: tuple[str, object] | None = None
    ) -> object:
        return [Situation(name, model or "tiny", 1.0, (), *(recipe or ()))]  # type: ignore[arg-type]

    monkeypatch.setattr(contract, "CONTRACT", (contract.finite, contract.resumable))
    monkeypatch.setattr(contract, "situations", one)
    monkeypatch.setattr(gate, "check", lambda *_: gate.Regression("reference.json", 3, 1))


def test_a_method_is_checked_by_contract_and_gate(here: Here) -> None:
    said = here("check", "--method", "fedavg")
    assert said.code == 0
    assert "0 broken promises" in said.out
    assert "3 cells of 1 methods against reference.json: nothing moved" in said.out


def test_a_promise_a_model_a_recipe_or_a_grid_may_be_named(here: Here) -> None:
    said = here("check", "--method", "fedavg", "--promise", "resumable")
    assert (said.code, "kept    fedavg: resumable" in said.out) == (0, True)
    assert "finite" not in said.out
    said = here("check", "--method", "fedavg", "--model", "every-kind")
    assert (said.code, "resumable (every-kind, participation 1)" in said.out) == (0, True)
    assert "cells of" not in said.out
    said = here("check", "--method", "fedavg", "--recipe", "fedpurin/billing-fmnist")
    assert (said.code, "(fedpurin/billing-fmnist, participation 1)" in said.out) == (0, True)
    grid = ROOT / "bench" / "examples" / "all_methods.toml"
    said = here("check", "--method", "fedavg", "--promise", "finite", "--grid", grid)
    assert said.code == 0
    assert said.out.count("kept    fedavg: finite (") == said.out.count("0 broken promises") > 0


def test_a_plugin_without_a_method_is_refused(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("")
    said = here("check", "--plugin", path)
    assert (said.code, "registers no method" in said.err) == (2, True)


def test_a_broken_promise_of_a_plugin_is_told_once_with_its_line(faulty: Path, here: Here) -> None:
    said = here("check", "--method", "test-raise", "--plugin", faulty)
    assert said.code == 1
    assert "2 broken promises" in said.out
    line = faulty.read_text().partition("raise ZeroDivisionError")[0].count("\n") + 1
    assert said.out.count("BROKEN") == 1
    assert f"ZeroDivisionError: on purpose (faulty.py:{line})" in said.out
