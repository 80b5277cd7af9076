"""Marked parts of pages: what a command writes, and nothing around it."""

from __future__ import annotations

from pathlib import Path

from repfl.bench.pages import parts

TEXT = "Before.\n<!-- figures: how -->\nold\n<!-- end of figures -->\nAfter.\n"


def test_only_the_part_changes(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(TEXT)
    assert parts.read(file, "figures") == "old\n"
    parts.write(file, "figures", "new\n")
    assert file.read_text() == TEXT.replace("old", "new")
    assert parts.read(file, "results") == ""
