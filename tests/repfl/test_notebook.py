"""The example notebook runs from top to bottom, and what it shows came out of such a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.repfl.notebooks import EXAMPLE, execute

ID = re.compile(r"\b[0-9a-f]{12}\b")


def test_the_example_notebook_runs_and_shows_what_it_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPFL_RESULTS", raising=False)
    notebook = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    for number, (cell, outputs) in enumerate(execute(notebook, tmp_path), start=1):
        kept = cell["outputs"]
        assert cell["execution_count"] == number
        assert [each["output_type"] for each in kept] == [each["output_type"] for each in outputs]
        # cells keep their ids on every machine; their numbers need not have the same last digit
        assert ID.findall(json.dumps(kept)) == ID.findall(json.dumps(outputs))
