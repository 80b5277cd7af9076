"""`repfl settle`: what to compute next, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repfl.bench.cli.commands import app, print_json, select
from repfl.bench.cli.options import AsJson, Chosen, Results, grouped
from repfl.bench.errors import UserError

if TYPE_CHECKING:
    from repfl.bench.cells.planned import Planned
    from repfl.bench.evidence.hindsight import Hindsight, Order
    from repfl.bench.evidence.scene import Scene
    from repfl.bench.evidence.settle import Choice
    from repfl.bench.records.store import Store
    from repfl.bench.running.cost import Speeds

TOLD = 4
"""Numbers of a choice that are told one by one."""


@app.command()
@grouped
def settle(
    chosen: Chosen,
    hours: Annotated[float, typer.Option(help="hours of one CPU worker to spend")] = 10.0,
    backtest: Annotated[
        bool, typer.Option("--backtest", help="order what is measured already, and compare")
    ] = False,
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """The paper-scale cells that are expected to settle most per hour."""
    from repfl.bench.records.store import Store

    scene, speeds = _scene(chosen, Store(results))
    if backtest:
        from repfl.bench.evidence.hindsight import hindsight
        from repfl.bench.evidence.settle import impossible

        _show_hindsight(hindsight(scene, speeds, impossible(scene.planned.values())))
        return 0
    found = _choices(scene, speeds, "--hours", hours)
    print_json([_plain(each) for each in found]) if as_json else _show(found, hours)
    return 0


def planned(chosen: Chosen, hours: float, store: Store) -> list[Planned]:
    """The cells for `repfl run --settle`, the best first."""
    found = _choices(*_scene(chosen, store), "--settle", hours)
    cells = [item for choice in found for item in choice.cells]
    if not cells:
        raise UserError(f"--settle {hours:g}: {NOTHING}")
    return cells


NOTHING = "no cell that fits into these hours is expected to settle anything; more hours may"


def _scene(chosen: Chosen, store: Store) -> tuple[Scene, Speeds]:
    from repfl.bench.evidence.library import Library
    from repfl.bench.evidence.scene import SCALE, scene
    from repfl.bench.running.cost import measured

    if chosen.scale == "desk":
        raise UserError("--scale desk settles no printed number; leave it out: settle means paper")
    cells = select(replace(chosen, scale=SCALE))
    return scene(cells, Library(store)), measured(store)["cpu"]


def _choices(scene: Scene, speeds: Speeds, option: str, hours: float) -> list[Choice]:
    from repfl.bench.evidence.settle import Chooser, check_hours, impossible

    check_hours(option, hours)
    return Chooser(scene, speeds, impossible(scene.planned.values())).choose(hours)


# -- showing ---------------------------------------------------------------------------------------


def _plain(choice: Choice) -> dict[str, Any]:
    """A choice as plain data."""
    return {
        "cells": [item.cell.id for item in choice.cells],
        "what": _what(choice),
        **vars(choice.cost),
        "expected": round(choice.expected, 3),
        "sentences": round(choice.sentences, 3),
        "numbers": [
            {
                "number": str(gain.number),
                "printed": gain.number.printed.mean,
                "runs": gain.runs,
                "reproduced": round(gain.chance.reproduced, 3),
                "differs": round(gain.chance.differs, 3),
                "more": round(gain.more, 3),
            }
            for gain in choice.gains
        ],
    }


def _what(choice: Choice) -> str:
    first, seeds = choice.cells[0], [str(item.cell.seed) for item in choice.cells]
    word = "seed" if len(seeds) == 1 else "seeds"
    return f"{first.key} {first.row}, {first.column}, {word} {', '.join(seeds)}"


def _show(found: Sequence[Choice], hours: float) -> None:
    from repfl.bench.cli.show import screen
    from repfl.bench.running.cost import between, duration

    out, spent = screen(), 0.0
    for choice in found:
        spent += choice.cost.seconds
        ids = " ".join(item.cell.short for item in choice.cells)
        line = f"{ids}  {_what(choice)}: {between(choice.cost)}"
        out.print(f"{line}; {choice.rate:.2f} an hour", soft_wrap=True)
        for gain in choice.gains[:TOLD]:
            runs = "1 run" if gain.runs == 1 else f"{gain.runs} runs"
            out.print(
                f"    {gain.number}, printed {gain.number.printed.mean:g}: with {runs}"
                f" {100 * gain.chance.reproduced:.0f} % reproduced,"
                f" {100 * gain.chance.differs:.0f} % differs",
                soft_wrap=True,
            )
        if len(choice.gains) > TOLD:
            out.print(f"    and {len(choice.gains) - TOLD} further numbers")
    if not found:
        out.print(NOTHING)
        return
    cells = sum(len(choice.cells) for choice in found)
    numbers = sum(gain.more for choice in found for gain in choice.gains)
    told = sum(choice.sentences for choice in found)
    out.print(
        f"{cells} cells, about {duration(spent)} of one CPU worker: {numbers:.1f} numbers and"
        f" {told:.1f} sentences are expected to be settled. `repfl run --settle {hours:g}` computes"
        " them, the best first.",
        soft_wrap=True,
    )


def _show_hindsight(found: Hindsight) -> None:
    from repfl.bench.cli.show import grid, screen

    rows = grid(
        "order", "cells", "hours", "settled", "each after (h)", "on average", right=(1, 2, 3, 5)
    )
    for name, order in (("as taken", found.taken), ("as settle orders them", found.ordered)):
        rows.add_row(name, *_line(order))
    out = screen()
    out.print(rows)
    out.print(
        f"Of the cells taken it expected {found.expected:.1f} numbers, of those that it would have"
        f" chosen among all for the same hours {found.free:.1f}.",
        soft_wrap=True,
    )


def _line(order: Order) -> list[str]:
    each = ", ".join(f"{hours:.1f}" for hours in order.settled)
    return [
        str(len(order.cells)), f"{order.hours:.1f}", str(len(order.settled)), each,
        f"{order.mean:.1f}",
    ]  # fmt: skip
