"""What people expect of a command: its version, and completion in their shell."""

from __future__ import annotations

import subprocess
import sys

import pytest

import repfl
from repfl.bench.cli.main import call
from tests.bench.conftest import ROOT


def test_it_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--version"]) == 0
    assert capsys.readouterr().out == f"repfl {repfl.__version__}\n"


@pytest.mark.parametrize(
    ("words", "expected"), [("repfl re", {"report", "reproduce"}), ("repfl plan --sc", {"--scale"})]
)
def test_a_shell_completes_commands_and_options(words: str, expected: set[str]) -> None:
    asked = {"_REPFL_COMPLETE": "complete_bash", "COMP_WORDS": words}
    env = {"PYTHONPATH": str(ROOT), "COMP_CWORD": str(len(words.split()) - 1), **asked}
    command = [sys.executable, "-m", "repfl"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert set(done.stdout.split()) == expected, done.stderr
