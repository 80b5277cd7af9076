"""The command that says what a contribution of measured lines changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repfl.bench.cli.commands import app
from repfl.bench.errors import FINDING, FINE

if TYPE_CHECKING:
    from repfl.bench.evidence.review import Review


@app.command()
def review(
    old: Annotated[str, typer.Argument(help="a commit, or a folder: the lines as they were")],
    new: Annotated[
        str, typer.Argument(help="a commit, or a folder: the lines with the contribution")
    ],
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the table as a page too")
    ] = None,
) -> int:
    """What does a contribution of measured lines change? For a pull request; code 1 if a line is
    refused.
    """
    from repfl.bench.evidence import review as reviewing

    found = reviewing.review(old, new)
    _say(summary(found), markdown)
    return FINDING if found.refused else FINE


def summary(found: Review) -> str:
    """A review as markdown, which a terminal shows as well."""
    counts = Counter(change.kind for change in found.changes)
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing changed"
    lines = [f"# Measured lines from {found.old} to {found.new}", ""]
    lines += [f"{told}; {found.same} as before; {found.refused or 'none'} refused.", ""]
    lines += [f"* {note}" for note in found.notes]
    if found.changes:
        lines += ["| | paper | scale | line | value | remark |", "|---|---|---|---|---|---|"]
    for change in sorted(found.changes, key=lambda change: not change.refused):
        mark = "REFUSED" if change.refused else "taken"
        fields = (
            f"{mark}: {change.kind}",
            change.paper,
            change.scale,
            change.what,
            change.value,
            change.remark,
        )
        lines.append(f"| {' | '.join(field.replace('|', '/') for field in fields)} |")
    return "\n".join(lines)


def _say(text: str, markdown: Path | None) -> None:
    from repfl.bench.cli.show import console
    from repfl.bench.store.store import write_synced

    if markdown:
        write_synced(markdown, text.encode())
    console().print(text, markup=False, soft_wrap=True)
