"""Marked parts of pages: what a command writes, and nothing around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repfl.bench.pages import parts
from tests.speed import page

TEXT = "Before.\n<!-- figures: how -->\nold\n<!-- end of figures -->\nAfter.\n"


def test_only_the_part_changes(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(TEXT)
    assert parts.read(file, "figures") == "old\n"
    parts.write(file, "figures", "new\n")
    assert file.read_text() == TEXT.replace("old", "new")
    assert parts.read(file, "results") == ""


def test_a_figure_s_name_keeps_its_decimal_point() -> None:
    assert page.name_of("test_a_grid_at_least_1_8_times_as_fast") == (
        "a grid at least 1.8 times as fast"
    )
    assert page.name_of("test_client_steps[cpu-1-loop-32]") == "client steps[cpu-1-loop-32]"


def test_benchmarks_are_written_into_their_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, found = tmp_path / "page.md", tmp_path / "run.json"
    file.write_text(TEXT)
    machine = {"cpu": {"brand_raw": "A processor"}, "machine": "x86_64", "python_version": "3.11.7"}
    one = {
        "name": "test_client_steps[a]",
        "extra_info": {"value": 1234.5, "unit": "images/s", "of plain PyTorch": 0.971},
    }
    found.write_text(
        json.dumps(
            {"machine_info": machine, "datetime": "2026-11-21T10:00:00", "benchmarks": [one]}
        )
    )
    monkeypatch.setattr(page, "PAGE", file)
    page.main([str(found)])
    written = parts.read(file, "figures")
    assert written.startswith("On A processor, one thread, Python 3.11.7, 2026-11-21:")
    assert "| client steps[a] | 1,234 images/s | 0.97 |  |" in written
