"""What is behind a claim, a published number or an artefact, and which trials are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.cli.options import Chosen, again, select
from repfl.bench.cli.printing import complain, print_json, screen, table, waiting
from repfl.bench.errors import FINDING, FINE, UserError
from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    from repfl.bench.evidence.selection import Choice, Trial


def statement(
    name: str,
    scale: str | None = None,
    grids: Sequence[Path] | None = None,
    plugins: Sequence[str] | None = None,
    results: Path | None = None,
    as_json: bool = False,
) -> int:
    """Show the trials of an artefact if it has some, and the numbers behind a statement."""
    from repfl.bench.grid.grid import files, paper_of, read
    from repfl.bench.report import show_text
    from repfl.bench.store.store import Store

    options, own = (plugins or (), results), {paper_of(path): path for path in grids or ()}
    paper, _, artefact = name.partition("/")
    of_suite, path = paper in files(), (files() | own).get(paper)
    if path is not None and artefact in read(path).file.artefacts:
        scale = scale or ("paper" if of_suite else "smoke")
        chosen = Chosen(artefact=[name], scale=scale, grid=list(grids or ()))
        with waiting("reading trials"):
            trials = choices(chosen, results)
        if trials is not None:
            # a paper of the suite has numbers and claims beside its trials
            numbers = _lines(name, *options) if of_suite and show_text.has_content(name) else []
            return _show_trials(*trials, numbers, as_json)
    if path is not None and not of_suite:
        values = f"`repfl report --grid {path}{again(options[0], Store(results))}`"
        raise UserError(f"{name}: a grid of your own has no published numbers; {values} has yours")
    lines = _lines(name, *options)
    print_json(lines) if as_json else print("\n".join(lines))
    return FINE


def _lines(name: str, plugins: Sequence[str], results: Path | None) -> list[str]:
    from repfl.bench.report import show_text
    from repfl.bench.store.store import Store

    store = Store(results)
    with waiting("reading results"):
        return show_text.describe(name, real_path(store.root), again(plugins, store))


# -- trials ----------------------------------------------------------------------------------------


def choices(chosen: Chosen, results: Path | None) -> tuple[list[Choice], list[str]] | None:
    """Return what validation chooses, and what is wrong with the records; None if no recipe of
    the artefact has validation data.
    """
    from repfl.bench.evidence import selection
    from repfl.bench.evidence.cell_evidence import CellEvidence, Records
    from repfl.bench.evidence.committed import committed_runs
    from repfl.bench.store.store import Store

    planned = select(chosen)
    if not selection.validated(planned):
        return None
    records = Records(Store(results))
    committed = committed_runs.read(planned[0].paper, planned[0].scale)
    chosen_trials = selection.choices(planned, CellEvidence(records, committed))
    return chosen_trials, [*committed.problems, *records.problems]


def _show_trials(
    choices: Sequence[Choice], problems: Sequence[str], numbers: Sequence[str], as_json: bool
) -> int:
    """Print one line per method and recipe, and below them the lines on published numbers."""
    if as_json:
        print_json({"trials": [_facts(choice) for choice in choices], "numbers": list(numbers)})
    else:
        out = screen()
        rows = [_row(choice) for choice in choices]
        out.print(table(rows))
        if any(choice.open for choice in choices):
            out.print("trials are missing: another one may be the best once they are computed")
        print("\n".join(numbers), end="\n" if numbers else "")
    complain(problems)
    return FINDING if problems else FINE


def _row(choice: Choice) -> dict[str, str]:
    """Return the line of a method and recipe."""
    from repfl.paper_tables.core.number_text import BLANK, plain

    best, study = choice.best, "" if choice.study is None else f", study {choice.study}"
    counts = {"missing": choice.open, "diverged or failed": choice.fell}
    trials = [str(len(choice.trials)), *(f"{n} {what}" for what, n in counts.items() if n)]
    by = (f"{name} = {best.options.get(name)}" for name in choice.tried) if best else ()
    return {
        "method": choice.method,
        "recipe": choice.column + study,
        "best": best.row if best else BLANK,
        "by": ", ".join(by),
        "validation": plain(best.val) if best else "",
        "test": plain(best.test) if best else "",
        "seeds": str(len(best.seeds)) if best else "",
        "trials": ", ".join(trials),
    }


def _facts(choice: Choice) -> dict[str, Any]:
    """Return a choice with all its trials, as plain data."""
    return {
        "artefact": choice.artefact,
        "method": choice.method,
        "recipe": choice.column,
        "study": choice.study,
        "best": None if choice.best is None else choice.best.row,
        "tried": choice.tried,
        "trials": [_finite(trial) for trial in choice.trials],
    }


def _finite(trial: Trial) -> dict[str, Any]:
    values = asdict(trial)
    return {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in values.items()}
