"""The figures of bench/SPEED.md, out of a file of `nox -s benchmarks`: python -m tests.speed.page benchmarks/<time>.json"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "bench" / "SPEED.md"
BLOCK = re.compile(r"(<!-- figures: .*? -->\n).*?(<!-- end of figures -->)", flags=re.DOTALL)
HEAD = ("figure", "measured", "of plain PyTorch", "of the roofline")


def block(found: Mapping[str, Any]) -> str:
    """A sentence on the machine and a table of every figure that was taken there."""
    machine = found["machine_info"]
    processor = machine["cpu"].get("brand_raw", machine["machine"])
    lines = [
        f"On {processor}, one thread, Python {machine['python_version']}, {found['datetime'][:10]}:",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    for each in found["benchmarks"]:
        kept = each["extra_info"]
        shares = ("" if (share := kept.get(name)) is None else f"{share:.2f}" for name in HEAD[2:])
        name, measured = each["name"].removeprefix("test_").replace("_", " "), f"{kept['value']:,.4g} {kept['unit']}"
        lines.append(f"| {' | '.join([name, measured, *shares])} |")
    return "\n".join(lines) + "\n"


def main(path: str) -> None:
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + block(found) + match[2], PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
