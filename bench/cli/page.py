"""Write the page of all options, from the commands' own help: python -m repfl.bench.cli.page"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from repfl.bench.cli.main import command_line
from repfl.bench.store.provenance import ROOT

PAGE = ROOT / "bench" / "OPTIONS.md"
PART = re.compile(r"(?<=-->\n)\|.*(?=<!-- end of options -->)", flags=re.DOTALL)


def block() -> str:
    """One line per option; commands that say the same of one share it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, command in _commands(command_line()):
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden and option.help:
                key = (option.opts[0], " ".join(option.help.split()))
                found.setdefault(key, []).append(name)
    lines = ["| option | what it does | commands |", "|---|---|---|"]
    for (option, told), commands in sorted(found.items()):
        lines.append(f"| `{option}` | {told.replace('|', chr(92) + '|')} | {', '.join(commands)} |")
    return "\n".join(lines) + "\n"


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        elif not command.hidden:
            yield f"{before}{name}", command


if __name__ == "__main__":
    PAGE.write_text(PART.sub(lambda _: block(), PAGE.read_text("utf-8")), encoding="utf-8")
