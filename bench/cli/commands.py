"""The commands of `repfl`. Each imports what it needs when it is called, so that none waits for
another's libraries.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repfl.bench.cli.options import (
    AsJson,
    Chosen,
    Launch,
    Out,
    Results,
    Shard,
    Stale,
    Style,
    Unmeasured,
    grouped,
)

if TYPE_CHECKING:
    from repfl.bench.grid.plan import Planned

app = typer.Typer(
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Regenerates the tables and figures of five papers on personalised federated learning,"
        " beside what they print. Exit codes: 0 fine; 1 a finding; 2 wrong input; 3 some cells"
        " or artefacts failed; 130 and 143 stopped by a signal."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        import repfl

        print(f"repfl {repfl.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="the version, and leave"),
    ] = False,
) -> None:
    """Makes `repfl` a group of commands even if there were only one."""


def select(
    chosen: Chosen, shard: str | None = None, unmeasured: bool = False, *, beside: bool = False
) -> list[Planned]:
    """The planned cells that the selectors leave; `beside`: with the rows of the tables that a
    method is added to.
    """
    from repfl.bench.grid import plugins
    from repfl.bench.grid.plan import Selection, plan
    from repfl.bench.grid.plan import shard as cut

    plugins.load(chosen.plugin or ())
    names = (chosen.paper or (), chosen.artefact or (), chosen.method or (), chosen.dataset or ())
    more = (chosen.seed or (), chosen.cell or (), chosen.scale or "smoke", chosen.grid or ())
    planned = plan(Selection(*names, *more), beside=beside)
    if shard:
        from repfl.bench.run import cost

        planned = cut(planned, shard, cost.static)
    if unmeasured:
        from repfl.bench.evidence.measured import unmeasured as only

        planned = only(planned)
    return planned


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


# -- plan, run, report -----------------------------------------------------------------------------


@app.command()
@grouped
def plan(
    chosen: Chosen,
    shard: Shard = None,
    unmeasured: Unmeasured = False,
    stale: Stale = False,
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """Cells, what is done, what is missing and why, and what the rest will cost, cheapest first."""
    from repfl.bench.cli import show, status
    from repfl.bench.store.store import Store

    planned, store = select(chosen, shard, unmeasured), Store(results)
    facts = status.overview(planned, store, only_stale=stale)
    print_json(facts) if as_json else show.plan(facts, stale)
    return 0


@app.command()
@grouped
def run(
    chosen: Chosen,
    launch: Launch,
    shard: Shard = None,
    unmeasured: Unmeasured = False,
    stale: Stale = False,
) -> int:
    """Compute what is missing, or what is stale."""
    from repfl.bench.cli import launch as launching
    from repfl.bench.cli import status
    from repfl.bench.store.store import Store

    planned = select(chosen, shard, unmeasured)
    if stale:  # again, since a stale record would do otherwise
        planned, launch = (
            status.only_stale(planned, Store(launch.results)),
            replace(launch, fresh=True),
        )
    return launching.run(planned, launch, chosen.plugin).exit_code


@app.command()
@grouped
def report(
    chosen: Chosen, results: Results = None, out: Out = Path("report"), style: Style = "report"
) -> int:
    """Tables (csv, md, tex), figures (png, pdf) and pages from what is stored; without a scale, the
    best evidence that there is for every number.
    """
    from repfl.bench.cli import reporting

    return reporting.report(chosen, results, out, style)


@app.command()
@grouped
def reproduce(chosen: Chosen, launch: Launch, out: Out = Path("report")) -> int:
    """Run, then report. A method that joins tables is computed alone, and shown beside what is
    known of their rows.
    """
    from repfl.bench.cli import launch as launching
    from repfl.bench.cli import reporting

    summary = launching.run(select(chosen), launch, chosen.plugin)
    if summary.signal:
        return summary.exit_code
    found = reporting.report(chosen, launch.results, out)
    return summary.exit_code or found


def mount_data() -> None:
    """The commands about data live beside the functions they print; imported only when somebody may
    want them.
    """
    from repfl.bench.cli.data import app as data

    if not app.registered_groups:
        app.add_typer(data, name="data", help="Datasets: list, get, import, verify, show.")


def mounted_commands() -> list[Any]:
    """The commands below other commands, as far as they are mounted."""
    groups = [info.typer_instance for info in app.registered_groups]
    return [info for group in groups if group for info in group.registered_commands]
