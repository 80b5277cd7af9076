"""`repfl best`: the best trials, for a reader and for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from repfl.bench.cli.show import grid, screen
from repfl.bench.errors import UserError
from repfl.bench.evidence import recheck
from repfl.bench.evidence.library import Known, Library
from repfl.bench.evidence.selection import Choice, Trial, choices
from repfl.bench.grid.plan import Planned
from repfl.bench.report import numbers
from repfl.bench.store.store import Store


def found(planned: Sequence[Planned], results: Path | None) -> tuple[list[Choice], list[str]]:
    """What validation chose among cells of one scale, and what is wrong with the records."""
    library, problems = Library(Store(results)), []
    chosen: list[Choice] = []
    refused: UserError | None = None
    for paper in dict.fromkeys(item.paper for item in planned):
        mine = [item for item in planned if item.paper == paper]
        known = recheck.of(mine)
        problems += known.problems
        try:
            chosen += choices(mine, Known(library, known))
        except UserError as error:  # no validation data in this paper
            refused = refused or error
    if refused and not chosen:
        raise refused
    return chosen, problems + library.problems


def facts(found: Sequence[Choice]) -> list[dict[str, Any]]:
    """Every choice with all its trials, as plain data."""
    return [
        {
            "artefact": choice.artefact,
            "method": choice.method,
            "recipe": choice.column,
            "study": choice.study,
            "best": None if choice.best is None else choice.best.row,
            "tried": choice.tried,
            "trials": [_plain(trial) for trial in choice.trials],
        }
        for choice in found
    ]


def _plain(trial: Trial) -> dict[str, Any]:
    values = asdict(trial)
    return {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in values.items()}


def show(found: Sequence[Choice]) -> None:
    """One line per method and recipe."""
    out = screen()
    rows = grid(
        "artefact", "method", "recipe", "best", "by", "validation", "test", "seeds", "trials",
        right=(5, 6, 7),
    )  # fmt: skip
    for choice in found:
        study = "" if choice.study is None else f", study {choice.study}"
        column = choice.column + study
        rows.add_row(choice.artefact, choice.method, column, *_line(choice), _told(choice))
    out.print(rows)
    if any(choice.open for choice in found):
        out.print("trials are missing: another one may be the best once `repfl run` has made them")


def _line(choice: Choice) -> list[str]:
    best = choice.best
    if best is None:
        return [numbers.BLANK, *[""] * 4]
    by = ", ".join(f"{name} = {best.options.get(name)}" for name in choice.tried)
    scores = [numbers.plain(best.val), numbers.plain(best.test)]
    return [best.row, by, *scores, str(len(best.seeds))]


def _told(choice: Choice) -> str:
    counts = {"missing": choice.open, "diverged or failed": choice.fell}
    return ", ".join([str(len(choice.trials)), *(f"{n} {what}" for what, n in counts.items() if n)])
