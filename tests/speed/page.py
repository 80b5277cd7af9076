"""The figures of bench/SPEED.md, out of files of `nox -s benchmarks`: python -m tests.speed.page
benchmarks/*.json

A figure that several files have is the last one's; all are of one machine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repfl.bench.pages import parts

PAGE = Path(__file__).resolve().parents[2] / "bench" / "SPEED.md"
HEAD = ("figure", "measured", "of plain PyTorch", "of the roofline")


def block(found: Mapping[str, Any]) -> str:
    """A sentence on the machine and a table of every figure that was taken there."""
    machine = found["machine_info"]
    processor = machine["cpu"].get("brand_raw", machine["machine"])
    lines = [
        (
            f"On {processor}, one thread, Python {machine['python_version']},"
            f" {found['datetime'][:10]}:"
        ),
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    for each in found["benchmarks"]:
        kept = each["extra_info"]
        shares = ("" if (share := kept.get(name)) is None else f"{share:.2f}" for name in HEAD[2:])
        measured = f"{kept['value']:,.4g} {kept['unit']}"
        lines.append(f"| {' | '.join([name_of(each['name']), measured, *shares])} |")
    return "\n".join(lines) + "\n"


def name_of(test: str) -> str:
    """What a figure is called, by its test: 1_8_times is 1.8 times."""
    decimal = re.sub(r"_(\d+)_(\d+)_times", r"_\1.\2_times", test.removeprefix("test_"))
    return decimal.replace("_", " ")


def joined(paths: Sequence[str]) -> dict[str, Any]:
    """Several files as one."""
    files = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    figures = {each["name"]: each for found in files for each in found["benchmarks"]}
    return files[-1] | {"benchmarks": list(figures.values())}


def main(paths: Sequence[str]) -> None:
    found = joined(paths)
    parts.write(PAGE, "figures", block(found))


if __name__ == "__main__":
    main(sys.argv[1:])
