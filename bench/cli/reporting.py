"""What `repfl report` shows: one scale where one is asked for, else the best evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote

from repfl.bench.cli import show
from repfl.bench.cli.commands import select
from repfl.bench.cli.options import Chosen, again
from repfl.bench.errors import FAILED, FINDING, UserError, unknown
from repfl.bench.grid.plan import Planned
from repfl.bench.report import making
from repfl.bench.store.store import Store

REAL = ("paper", "desk")
STYLES = ("report", "paper")


def report(chosen: Chosen, results: Path | None, out: Path, style: str = "report") -> int:
    """Write the report, print the tables and where the page is."""
    if style not in STYLES:
        raise unknown("style", style, STYLES)
    store = Store(results)
    asked = replace(_asked(chosen), again=again(chosen.plugin or (), store), style=style)
    found = making.report(asked, store, out)
    show.report(found)
    if not found.runs:
        print(f"nothing computed yet: {_run(chosen)}{asked.again}")
    return FAILED if found.failed else FINDING if found.problems else 0


def _run(chosen: Chosen) -> str:
    """The command that computes what was asked for, but for what `again` says."""
    board = chosen.paper == ["board"] and chosen.scale in ("smoke", "paper")
    small = " --small" if chosen.scale == "smoke" else ""
    told = {"plugin", "paper", "scale"} if board else {"plugin"}
    given = {name: value for name, value in vars(chosen).items() if value and name not in told}
    listed = [(n, each) for n, v in given.items() for each in ([v] if isinstance(v, str) else v)]
    head = f"repfl board run{small}" if board else "repfl run"
    return head + "".join(f" --{name} {quote(str(each))}" for name, each in listed)


def _asked(chosen: Chosen) -> making.Asked:
    """The cells to be shown. A method that joins tables, and a grid of one's own, are shown at the
    scale at which they have been run.
    """
    if chosen.scale:
        planned = select(chosen, beside=True)
        return making.Asked(planned, planned if chosen.scale == "smoke" else ())
    smoke, refused = _planned(chosen, "smoke")
    if any(item.guest or item.file for item in smoke):
        return making.Asked(smoke)
    real = [item for scale in REAL for item in _planned(chosen, scale)[0]]
    if not real and not smoke and refused:
        raise refused
    return making.Asked(real, smoke, best=True) if real else making.Asked(smoke, smoke)


def _planned(chosen: Chosen, scale: str) -> tuple[list[Planned], UserError | None]:
    """The cells of a scale; none, and why, where the selection has none there."""
    try:
        return select(replace(chosen, scale=scale), beside=True), None
    except UserError as error:
        return [], error
