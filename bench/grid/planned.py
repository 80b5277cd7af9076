"""Planned cells: what is computed, and for which place in a table or figure; and what a selection
leaves of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Any

from repfl.bench.errors import UserError, nearest
from repfl.bench.grid.cell import Cell, plain
from repfl.bench.grid.grid import SCALES
from repfl.bench.grid.valid import hyperparameters, options_of

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


# -- selections ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """What a user asks for; an empty part means everything."""

    papers: Sequence[str] = ()
    artefacts: Sequence[str] = ()
    methods: Sequence[str] = ()
    datasets: Sequence[str] = ()
    seeds: Sequence[int] = ()
    cells: Sequence[str] = ()
    scale: str = "smoke"
    files: Sequence[Path] = field(default=())
    """Grid files beside the ones that come with the papers."""


def described(selection: Selection) -> str:
    """What was asked for, in words."""
    return (
        ", ".join([*selection.papers, *selection.artefacts, *map(str, selection.files)])
        or "the suite"
    )


def satisfies(item: Planned, specs: Iterable[tuple[str, dict[str, Any]]]) -> bool:
    """Whether a cell satisfies one of the method specs; `name[option=value]` fixes options, the
    others are free.
    """
    specs = list(specs)
    return not specs or any(matches(item.cell, name, hp) for name, hp in specs)


def matches(cell: Cell, name: str, hp: dict[str, Any]) -> bool:
    """Whether a cell is of a method with these options."""
    if cell.method != name:
        return False
    silent = options_of(hyperparameters(name, {}), hp.keys() - cell.hp.keys())
    held = silent | dict(cell.hp)
    return all(plain(held[key]) == plain(value) for key, value in hp.items())


def narrow(
    found: list[Planned],
    planned: list[Planned],
    selection: Selection,
    at: Callable[[str], list[Planned]],
) -> list[Planned]:
    """Apply the remaining selectors one after another; the one that leaves nothing is named, with
    what was on offer, here or `at` another scale.
    """
    if not found:
        raise _nothing(
            "--method",
            ", ".join(selection.methods),
            {item.cell.method for item in planned},
            selection,
        )
    steps: list[tuple[str, Sequence[Any], Callable[[Planned], Any]]] = [
        ("--dataset", selection.datasets, lambda item: item.cell.recipe["dataset"]),
        ("--seed", selection.seeds, lambda item: item.cell.seed),
    ]
    for option, values, of in steps:
        offered = {of(item) for item in found}
        for value in values:
            if value not in offered:
                others = {scale: {str(of(item)) for item in at(scale)} for scale in SCALES}
                raise _nothing(option, str(value), offered, selection, others)
        found = [item for item in found if not values or of(item) in values]
    for prefix in selection.cells:
        if not any(item.cell.id.startswith(prefix) for item in found):
            raise UserError(
                f"--cell {prefix}: no selected cell has an id that starts so; `repfl plan --json`"
                " lists them"
            )
    return [
        item
        for item in found
        if not selection.cells or item.cell.id.startswith(tuple(selection.cells))
    ]


def _nothing(
    option: str,
    value: str,
    offered: Iterable[Any],
    selection: Selection,
    elsewhere: Mapping[str, set[str]] | None = None,
) -> UserError:
    here, elsewhere = set(map(str, offered)), elsewhere or {}
    hint = nearest(value, here)
    (near, *_) = get_close_matches(value.lower(), here.union(*elsewhere.values()), n=1) or [""]
    if near and near not in here:
        scales = " or ".join(f"--scale {scale}" for scale, has in elsewhere.items() if near in has)
        hint = f"add {scales}" if near == value else f"did you mean {near}, with {scales}?"
    return UserError(
        f"{option} {value}: no cell of {described(selection)} at scale {selection.scale} has it;"
        f" {hint}"
    )
