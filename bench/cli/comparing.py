"""The commands that lay two commits side by side: what their code computes, and what was
measured.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repfl.bench.cli.commands import app
from repfl.bench.cli.options import Workers
from repfl.bench.errors import FINDING, FINE

if TYPE_CHECKING:
    from repfl.bench.evidence.review import Review
    from repfl.bench.trust.side_by_side import Comparison, Disagreement


@app.command()
def compare(
    old: Annotated[str, typer.Argument(help="a commit, tag or branch")],
    new: Annotated[str, typer.Argument(help="another one")],
    method: Annotated[
        list[str] | None, typer.Option("--method", help="only this method; repeatable")
    ] = None,
    workers: Workers = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="folder where answers of commits are kept (default: beside the data)"),
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record", help="write into the ledger what is equal, so that values stay current"
        ),
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the comparison as a page too")
    ] = None,
) -> int:
    """Do two commits compute the same? Today's gate and smoke scale under the code of each.

    After a change of code: `repfl compare LAST HEAD --record`, then commit bench/trust/engines.csv.
    """
    from repfl.bench.trust import ledger, side_by_side

    if record:
        side_by_side.refuse_changes()
    found = side_by_side.compare(old, new, method or (), keep, workers)
    _say(page(found), markdown)
    if record:
        print(
            f"{ledger.append(side_by_side.steps(found))} rows added to the ledger; commit"
            " bench/trust/engines.csv"
        )
    return FINDING if found.moves else FINE


def page(found: Comparison) -> str:
    """A comparison as markdown, which a terminal shows as well."""
    lines = [f"# {found.old[:8]} and {found.new[:8]}", ""]
    lines += ["| method | gate | smoke | not known to both | moved |", "|---|---|---|---|---|"]
    for name in found.methods:
        equal = Counter(trial.kind for trial in found.equal.get(name, ()))
        cells = (
            ["same code"] * 2
            if name in found.same
            else [f"{equal[kind]} equal" for kind in ("gate", "smoke")]
        )
        lines.append(
            f"| {name} | {' | '.join(cells)} | {len(found.unknown.get(name, ()))} |"
            f" {len(found.moved(name))} |"
        )
    lines += [
        "",
        (
            f"{found.views} ways in which the grids deal data are equal, {len(found.views_moved)}"
            " moved."
        ),
        "",
    ]
    lines += [f"* {_told(moves)}" for moves in _by_variant(found.moves).values()]
    return "\n".join(lines)


def _by_variant(moves: list[Disagreement]) -> dict[str, list[Disagreement]]:
    """What moved, by method and options."""
    found: dict[str, list[Disagreement]] = {}
    for move in moves:
        found.setdefault("data" if move.trial.kind == "view" else move.trial.variant, []).append(
            move
        )
    return found


def _told(moves: list[Disagreement]) -> str:
    """One variant: how many cells, and what moved in the first."""
    first = moves[0]
    what = "data" if first.trial.kind == "view" else first.trial.variant
    return f"{what}: {len(moves)} moved; {first.trial.kind} {first.trial.label}: {first.what}"


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
    from repfl.bench.records.store import write_synced

    if markdown:
        write_synced(markdown, text.encode())
    console().print(text, markup=False, soft_wrap=True)
