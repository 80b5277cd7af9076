"""`repfl check`: what the contract and the gate found is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.check import contract, gate
from repfl.bench.check.situation import Situation
from tests.bench.conftest import ROOT, Here


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check two promises in one situation."""
    monkeypatch.setattr(contract, "CONTRACT", (contract.finite, contract.resumable))
    monkeypatch.setattr(
        contract,
        "situations",
        lambda name, model=None, recipe=None: [
            Situation(name, model or "tiny", 1.0, (), *(recipe or ()))
        ],
    )


def test_one_promise_of_one_method(here: Here) -> None:
    said = here("check", "--method", "fedavg", "--promise", "resumable")
    assert said.code == 0
    assert "kept    fedavg: resumable" in said.out
    assert "0 broken promises" in said.out
    assert "finite" not in said.out


def test_a_model_may_be_named(here: Here) -> None:
    said = here("check", "--method", "fedavg", "--model", "every-kind")
    assert (said.code, "resumable (every-kind, participation 1)" in said.out) == (0, True)
    assert "cells of" not in said.out
    said = here("check", "--method", "fedavg", "--model", "tinny")
    assert (said.code, "unknown model 'tinny'; did you mean tiny" in said.err) == (2, True)


def test_a_plugin_without_a_method_is_refused(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("")
    said = here("check", "--plugin", path)
    assert (said.code, "registers no method" in said.err) == (2, True)
    assert "have a test file for pytest" in said.err


def test_a_broken_promise_of_a_plugin_is_told_once_with_its_line(faulty: Path, here: Here) -> None:
    said = here("check", "--method", "test-raise", "--plugin", faulty)
    assert said.code == 1
    assert "2 broken promises" in said.out
    lines = faulty.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "raise ZeroDivisionError" in text)
    wrong = f"ZeroDivisionError: on purpose (faulty.py:{line})"
    assert said.out.count("BROKEN") == 1
    assert wrong in said.out
    assert "test-raise: 1 x more: ZeroDivisionError" in said.out


def test_a_named_method_is_checked_by_contract_and_gate(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gate.Regression("reference.json", 3, 1)
    monkeypatch.setattr(gate, "check", lambda *_: found)
    said = here("check", "--method", "fedavg")
    assert (said.code, "0 broken promises" in said.out) == (0, True)
    assert "3 cells of 1 methods against reference.json: nothing moved" in said.out


def test_a_recipe_or_a_grid_may_be_named(here: Here) -> None:
    said = here("check", "--method", "fedavg", "--recipe", "fedpurin/billing-fmnist")
    assert (said.code, "(fedpurin/billing-fmnist, participation 1)" in said.out) == (0, True)
    said = here("check", "--method", "fedavg", "--recipe", "fmnist-nowhere")
    assert (said.code, "unknown recipe 'fmnist-nowhere'" in said.err) == (2, True)
    grid = ROOT / "bench" / "examples" / "all_methods.toml"
    said = here("check", "--method", "fedavg", "--promise", "finite", "--grid", grid)
    assert said.code == 0
    assert said.out.count("kept    fedavg: finite (") == said.out.count("0 broken promises") > 0
