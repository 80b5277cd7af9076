"""`repfl check`: what the contract found is printed, and written for a pull request's page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repfl.bench.check import contract, gate
from repfl.bench.check.contract import Situation
from tests.bench.conftest import Said

Here = Callable[..., Said]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check two promises in one situation."""
    monkeypatch.setattr(contract, "CONTRACT", (contract.finite, contract.resumable))
    monkeypatch.setattr(contract, "situations", lambda name: [Situation(name, "tiny", 1.0)])
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))


def test_one_promise_of_one_method(here: Here, tmp_path: Path) -> None:
    asked = ("check", "--method", "fedavg", "--promise", "resumable")
    said = here(*asked, "--markdown", tmp_path / "page.md")
    assert said.code == 0
    assert "0 broken promises" in said.out
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("## Contract: kept\n")
    assert "| fedavg | resumable | kept |  |" in page
    assert "finite" not in page
    assert (tmp_path / "summary.md").read_text() == page


def test_a_broken_promise_of_a_plugin_is_told_once_with_its_line(
    faulty: Path, here: Here, tmp_path: Path
) -> None:
    asked = ("check", "--method", "test-raise", "--plugin", faulty)
    said = here(*asked, "--markdown", tmp_path / "page.md")
    assert said.code == 1
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("## Contract: 2 of 2 promises broken\n")
    lines = faulty.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "raise ZeroDivisionError" in text)
    wrong = f"ZeroDivisionError: on purpose (faulty.py:{line})"
    assert said.out.count("BROKEN") == 1
    assert wrong in said.out
    assert "test-raise: 1 more times" in said.out


def test_a_named_method_is_checked_by_contract_and_gate(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = gate.Regression("reference.json", 3, 1)
    monkeypatch.setattr(gate, "check", lambda *_: found)
    said = here("check", "--method", "fedavg", "--markdown", tmp_path / "page.md")
    assert (said.code, "0 broken promises" in said.out) == (0, True)
    assert "3 cells of 1 methods against reference.json: nothing moved" in said.out
    assert (tmp_path / "page.md").read_text().count("## ") == 2
