"""A planned cell: what is computed, and for which place in a table or figure; lists of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from repfl.bench.cells.cell import Cell
from repfl.bench.errors import UserError

SHARDS = 10_000
"""Parts that a plan is cut into at most; more than a job array may have."""


@dataclass(frozen=True)
class Planned:
    """A cell and the place in an artefact that it is for."""

    cell: Cell
    paper: str
    artefact: str
    kind: str
    row: str
    column: str
    column_label: str
    scale: str
    skip: str = ""
    """Why the cell makes no sense; empty: it does."""
    file: Path | None = None
    """The grid file, where it is none that came with a paper."""
    guest: str = ""
    """The method that this cell is of, where its artefact has no row of it."""

    trial: int = 0
    """Its number in a search, from 1; 0: nothing is searched. Every seed is a search of its own."""
    said: str = ""
    """The command that computes it, where no artefact has asked for it."""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.artefact}"

    @property
    def told(self) -> str:
        """What the row is called where trials stand one by one."""
        return f"{self.row}, trial {self.trial}" if self.trial else self.row

    @property
    def command(self) -> str:
        """What computes this cell, and nothing else, on any machine."""
        guests = [self.guest] if self.guest else []
        return self.said or (
            f"repfl run --scale {self.scale} --artefact {self.key} --cell"
            f" {self.cell.short}{asked_beside(self.file, guests)}"
        )


def asked_beside(file: Path | None, guests: Iterable[str]) -> str:
    """What else must be said to have cells planned: their grid file, methods that it has not."""
    own = "" if file is None else f" --grid {quote(str(file))}"
    return own + "".join(f" --method {quote(guest)}" for guest in guests)


def unique(planned: Iterable[Planned]) -> list[Planned]:
    """Each cell once, where it is first planned: artefacts share cells."""
    found: dict[str, Planned] = {}
    for item in planned:
        found.setdefault(item.cell.id, item)
    return list(found.values())


def shard(
    planned: Sequence[Planned], text: str, cost: Callable[[Planned], float] = lambda item: 1.0
) -> list[Planned]:
    """The i-th of n parts of the cells that cost about the same, `i/n` with i from 1; the same for
    the same plan on every machine.
    """
    part, _, parts = text.partition("/")
    numbers = re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text)
    if not numbers or not 1 <= int(part) <= int(parts) <= SHARDS:
        raise UserError(
            f"--shard {text!r} is not valid; valid: i/n with 1 <= i <= n <= {SHARDS:,}, such as 2/8"
        )
    loads, mine = [0.0] * int(parts), set()
    for load, item in sorted(
        ((cost(item), item) for item in unique(planned)),
        key=lambda pair: (-pair[0], pair[1].cell.id),
    ):
        least = loads.index(min(loads))  # the longest first, each to the part that has least to do
        loads[least] += load
        if least == int(part) - 1:
            mine.add(item.cell.id)
    return [item for item in planned if item.cell.id in mine]
