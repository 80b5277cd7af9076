"""The page of options is what the commands' help says."""

from __future__ import annotations

from repfl.bench.pages import options, parts


def test_the_page_of_options_is_the_commands_own_help() -> None:
    text = parts.read(options.PAGE, "options")
    assert text == options.block()
    for option in ("--cell", "--fresh", "--time-limit", "--reference", "--keep", "--out"):
        assert f"| `{option}` |" in text, option
