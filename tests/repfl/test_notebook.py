"""The example notebook runs from top to bottom, and what it shows came out of such a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.repfl.notebooks import EXAMPLE, execute

SAME = re.compile(r"\b[0-9a-f]{12}\b|\[\d+ rows|Empty DataFrame")


def test_the_example_notebook_runs_and_shows_what_it_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPFL_RESULTS", raising=False)
    notebook = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    for number, (cell, outputs) in enumerate(execute(notebook, tmp_path), start=1):
        kept = cell["outputs"]
        assert cell["execution_count"] == number
        assert [each["output_type"] for each in kept] == [each["output_type"] for each in outputs]
        # ids of cells and sizes of frames are equal on every machine, last digits need not be
        assert SAME.findall(json.dumps(kept)) == SAME.findall(json.dumps(outputs))
        assert "Empty DataFrame" not in json.dumps(outputs)
