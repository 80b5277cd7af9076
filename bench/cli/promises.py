"""What the contract says of methods, for a terminal and for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from repfl.bench.check.contract import check
from repfl.bench.cli.moves import publish, table
from repfl.bench.errors import FINDING, FINE
from repfl.bench.grid.cell import entry

Said = dict[tuple[str, str], list[str]]
"""What is wrong, or nothing, in every situation, by method and promise."""


def contract(names: Sequence[str], file: Path | None = None) -> int:
    """Check the contract of methods; a broken promise is a finding."""
    said: Said = {}
    for name in names:
        entry(name)
        seen = Counter[str]()
        for promise, case, wrong in check(name):
            situation = f"{case.model}, participation {case.participation:g}"
            said.setdefault((name, promise), []).append(wrong and f"{situation}: {wrong}")
            seen[wrong] += 1
            if seen[wrong] == 1 if wrong else len(names) == 1:
                print(
                    f"{'BROKEN' if wrong else 'kept':7} {name}: {promise}"
                    f" ({situation}){': ' if wrong else ''}{wrong}"
                )
        for wrong, count in seen.items():
            if wrong and count > 1:
                print(f"        {name}: {count - 1} more times: {wrong}")
    broken = sum(bool(wrong) for each in said.values() for wrong in each)
    print(f"{len(names)} methods, {broken} broken promises")
    publish(markdown(said), file)
    return FINDING if broken else FINE


def markdown(said: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """A section for the page of a pull request or a job; of a broken promise the first finding."""
    rows, broken = [], 0
    for (name, promise), each in said.items():
        wrong = [text for text in each if text]
        verdict = f"broken in {len(wrong)} of {len(each)}" if wrong else "kept"
        rows.append((name, promise, verdict, wrong[0] if wrong else ""))
        broken += bool(wrong)
    title = f"Contract: {broken} of {len(rows)} promises broken" if broken else "Contract: kept"
    heads = ("method", "promise", "verdict", "situation and finding")
    return f"## {title}\n\n{table(heads, rows)}\n\n"
