"""`repfl board`: the commands that the board takes, with what they would need to be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from repfl.bench.cli.commands import app
from repfl.bench.cli.options import Plugins
from repfl.bench.errors import UserError, unknown

ACTIONS = ("plan", "run", "report", "reproduce", "best", "collect")
REST = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=REST)
def board(
    context: typer.Context,
    action: Annotated[str, typer.Argument(help=f"{', '.join(ACTIONS)}")] = "report",
    small: Annotated[
        bool,
        typer.Option(
            "--small", help="on embedded digits, in minutes: shows that it works, no more"
        ),
    ] = False,
    plugin: Plugins = None,
) -> int:
    """All methods, equally tuned: `repfl ACTION` for the board alone. Takes the action's options;
    `--method NAME --plugin FILE` puts a method of your own on it, with the same budget.
    """
    from repfl.bench.cli.main import call

    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS, "board")
    if plugin and action in ("run", "reproduce"):
        _admit(plugin)
    return call([action, *asked(small), *_plugins(plugin or ()), *context.args])


def _admit(paths: Sequence[str]) -> None:
    """Refuse methods that look at test images, or without a word at validation images: what they
    reach there says nothing.
    """
    from repfl.algorithms.core.method import methods
    from repfl.bench.check.contract import blind, check
    from repfl.bench.grid import plugins

    plugins.load(paths)
    for name, entry in methods().items():
        if entry.cls.__module__.startswith("repfl."):
            continue
        for _, _, wrong in check(name, [blind]):
            if wrong:
                raise UserError(f"method {name} cannot stand on the board: {wrong}")


def asked(small: bool) -> list[str]:
    """What selects the board; its own size is the scale that papers have."""
    return ["--paper", "board", "--scale", "smoke" if small else "paper"]


def _plugins(paths: Sequence[str]) -> list[str]:
    return [word for path in paths for word in ("--plugin", path)]
