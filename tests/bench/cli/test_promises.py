"""What the contract found is printed, and written where a page is wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repfl.bench.check import contract
from repfl.bench.check.contract import Situation
from tests.bench.conftest import Said

Here = Callable[..., Said]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two promises in one situation."""
    monkeypatch.setattr(contract, "CONTRACT", (contract.finite, contract.resumable))
    monkeypatch.setattr(contract, "situations", lambda name: [Situation(name, "tiny", 1.0)])
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))


def test_a_kept_contract_is_a_table(here: Here, tmp_path: Path) -> None:
    said = here("methods", "fedavg", "--contract", "--markdown", tmp_path / "page.md")
    assert said.code == 0
    assert "0 broken promises" in said.out
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("## Contract: kept\n")
    assert "| fedavg | resumable | kept |  |" in page
    assert (tmp_path / "summary.md").read_text() == page


def test_a_broken_promise_is_named_with_its_situation(
    faulty: Path, here: Here, tmp_path: Path
) -> None:
    asked = ("methods", "test-raise", "--plugin", faulty, "--contract")
    said = here(*asked, "--markdown", tmp_path / "page.md")
    assert said.code == 1
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("## Contract: 2 of 2 promises broken\n")
    assert "| test-raise | finite | broken in 1 of 1 | tiny, participation 1: Zero" in page


def test_an_error_of_a_method_is_told_once_with_its_file_and_line(faulty: Path, here: Here) -> None:
    said = here("methods", "test-raise", "--plugin", faulty, "--contract")
    lines = faulty.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "raise ZeroDivisionError" in text)
    wrong = f"ZeroDivisionError: on purpose (faulty.py:{line})"
    assert said.out.count("BROKEN") == 1
    assert f"BROKEN  test-raise: finite (tiny, participation 1): {wrong}\n" in said.out
    assert f"        test-raise: 1 more times: {wrong}\n" in said.out
