"""The page of options is what the commands' help says."""

from __future__ import annotations

from repfl.bench.cli import page


def test_the_page_of_options_is_the_commands_own_help() -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.block() in text
    for option in ("--cell", "--fresh", "--time-limit", "--reference", "--keep", "--out"):
        assert f"| `{option}` |" in text, option
