"""Committed runs: `paper_tables/<paper>/measured/<scale>.jsonl`, one JSON object a line.

A line is what one contributor got for one cell on one platform, so independent runs of a cell stand
side by side. It has the whole cell, its metrics, its curves and counts, the diagnostics that a
figure shows, where all this comes from, and a checksum. `git diff` shows what was added, and
`pandas.read_json(file, lines=True)` reads the files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repfl.bench.errors import one_line
from repfl.bench.evidence.committed.committed_run import Line, parse
from repfl.bench.grid.grid import SCALES, files, folder
from repfl.bench.grid.planned import Planned
from repfl.bench.store import provenance
from repfl.bench.store.store import replace_file


@dataclass
class CommittedRuns:
    """The committed runs of one paper at one scale."""

    paper: str = ""
    scale: str = ""
    file: Path = Path()
    cells: dict[str, list[Line]] = field(default_factory=dict)
    """By cell; independent runs side by side."""
    problems: list[str] = field(default_factory=list)
    """A message for every line that was refused."""

    @property
    def lines(self) -> list[Line]:
        return [line for lines in self.cells.values() for line in lines]

    def line(self, cell: str) -> Line | None:
        """Return the best evidence for a cell: a current line before others, then the earliest."""
        return min(self.cells.get(cell, ()), key=_precedence, default=None)

    def others(self, line: Line) -> list[Line]:
        """Return the other lines of a line's cell."""
        return [each for each in self.cells[line.cell] if each.key != line.key]

    def add(self, line: Line) -> None:
        """Add a line, or replace that of the same cell, platform and contributor."""
        others = [each for each in self.cells.get(line.cell, ()) if each.key != line.key]
        self.cells[line.cell] = sorted([*others, line], key=lambda each: each.key)

    def remove(self, line: Line) -> None:
        """Remove a line."""
        if not (others := self.others(line)):
            del self.cells[line.cell]
        else:
            self.cells[line.cell] = others


def _precedence(line: Line) -> tuple[bool, str]:
    return not line.currency.current, line.record.origin.finished


def folder_of(paper: str, root: Path | None = None) -> Path:
    return folder(paper, root) / "measured"


def read(paper: str, scale: str, root: Path | None = None) -> CommittedRuns:
    """Read the committed runs of a paper at a scale; none if there is no file. An invalid line
    is left out and reported in `problems`.
    """
    runs = CommittedRuns(paper, scale, folder_of(paper, root) / f"{scale}.jsonl")
    try:
        text = runs.file.read_bytes()
    except FileNotFoundError:
        return runs
    except OSError as error:
        runs.problems.append(f"{runs.file}: cannot be read: {one_line(error)}")
        return runs
    fill(runs, text)
    return runs


def fill(runs: CommittedRuns, content: bytes) -> None:
    """Add the lines of a file's content."""
    for number, text in enumerate(content.splitlines(), start=1):
        try:
            line = parse(text.decode())
            if any(line.key == other.key for other in runs.cells.get(line.cell, ())):
                raise ValueError(
                    f"cell {line.cell[:12]} stands twice for platform {line.platform} and"
                    f" contributor {line.contributor}"
                )
            runs.add(line)
        except (ValueError, RecursionError) as error:
            runs.problems.append(f"{runs.file}:{number}: {one_line(error)}; not used")


def write(runs: CommittedRuns) -> Path:
    """Replace the file, with its lines sorted by key: the same lines give the same bytes."""
    lines = sorted(runs.lines, key=lambda line: line.key)
    texts = [json.dumps(line.json, separators=(",", ":")) + "\n" for line in lines]
    runs.file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(runs.file, "".join(texts).encode())
    return runs.file


def contributor() -> str:
    """Return the contributor's name: REPFL_CONTRIBUTOR, else `ci` in CI, else git's user name."""
    name = os.environ.get("REPFL_CONTRIBUTOR") or (
        "ci" if os.environ.get("CI") else provenance.author()
    )
    plain = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")
    return plain[:40] or "anonymous"


def ids() -> Iterator[tuple[str, str, str]]:
    """Yield paper, scale and cell of every committed run."""
    for paper in files():
        for scale in SCALES:
            yield from ((paper, scale, cell) for cell in read(paper, scale).cells)


def unmeasured(planned: Sequence[Planned]) -> list[Planned]:
    """Return the cells without a committed run, so that several people can share a grid."""
    paper_scales = {(item.paper, item.scale) for item in planned}
    committed = {cell for paper, scale in paper_scales for cell in read(paper, scale).cells}
    return [item for item in planned if item.cell.id not in committed]
