"""What a user asks for, and what is left of a plan when that is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from repfl.bench.cells.cell import Cell, plain
from repfl.bench.cells.grid import SCALES
from repfl.bench.cells.planned import Planned
from repfl.bench.cells.valid import hyperparameters, options_of
from repfl.bench.errors import UserError, nearest


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
