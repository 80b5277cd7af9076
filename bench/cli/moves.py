"""What moved between two computations, for a terminal and for a page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from repfl.bench.cli.show import console, grid
from repfl.bench.errors import FINDING, FINE, UserError

if TYPE_CHECKING:
    from repfl.bench.check.gate.compare import Move
    from repfl.bench.check.regress import Regression

HEADS = (
    "method",
    "recipe",
    "seeds",
    "version",
    "reference",
    "now",
    "difference",
    "what moved first",
)
NUMBERS = range(4, 7)
"""Columns of numbers."""
SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable by which GitHub's runners name the page of a job."""


def regression(found: Regression, file: Path | None = None) -> int:
    """What a check found, printed and where it is wanted as markdown; anything is exit code 1."""
    out = console()
    if found.moved:
        rows = grid(*HEADS, right=NUMBERS)
        for line in map(cells, found.moved):
            rows.add_row(
                *map(Text, line)
            )  # as it is: names have brackets, which rich would take for its own
        out.print(rows)
    for note in found.notes:
        out.print(Text(f"note: {note}"))
    out.print(Text(last_line(found)))
    publish(markdown(found), file)
    return FINDING if found.moved else FINE


def cells(move: Move) -> tuple[str, ...]:
    """One move as the cells of a row."""
    versions = dict.fromkeys(
        str(version) for version in (move.version_then, move.version_now) if version is not None
    )
    gap = "" if move.then is None or move.now is None else f"{100 * (move.now - move.then):+.2f}"
    numbers = ("-" if value is None else f"{100 * value:.2f}" for value in (move.then, move.now))
    return (
        move.spec,
        move.recipe,
        ", ".join(map(str, move.seeds)),
        " -> ".join(versions),
        *numbers,
        gap,
        move.why,
    )


def last_line(found: Regression) -> str:
    moved = len(found.moved) or "nothing"
    return (
        f"{found.cells} cells of {found.methods} methods against {found.reference}: {moved} moved"
    )


def publish(text: str, file: Path | None) -> None:
    """Write a page where it is wanted: a file of the user's, and what a runner shows of a job."""
    wanted = [(file, "w", "--markdown")] if file is not None else []
    if os.environ.get(SUMMARY):
        wanted.append((Path(os.environ[SUMMARY]), "a", SUMMARY))
    for path, mode, name in wanted:
        try:
            with path.open(mode, encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise UserError(f"{name} {path}: cannot be written: {error.strerror}") from None


# -- markdown --------------------------------------------------------------------------------------


def markdown(found: Regression) -> str:
    """A section for the page of a pull request or a job."""
    title = "Accuracy gate: " + (f"{len(found.moved)} moved" if found.moved else "nothing moved")
    parts = [f"## {title}", escaped(last_line(found))]
    if found.moved:
        parts.append(table(HEADS, map(cells, found.moved), NUMBERS))
    parts += [f"- {escaped(note)}" for note in found.notes]
    return "\n\n".join(parts) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A markdown table of plain texts."""
    numbers = set(right)
    rule = ["---:" if index in numbers else "---" for index in range(len(heads))]
    lines = [list(heads), rule, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """A text that markdown shows as it is."""
    return "".join(
        f"\\{letter}" if letter in "\\`*_[]<>|#~$&" else letter for letter in " ".join(text.split())
    )
