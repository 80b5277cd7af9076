"""Commands that look: at what there is, at what is stored, and at whether it can be trusted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from repfl.bench.cli.commands import app, print_json, select
from repfl.bench.cli.options import (
    Artefacts,
    AsJson,
    Chosen,
    FromResults,
    Grids,
    Methods,
    Papers,
    PaperScale,
    Plugins,
    Results,
    Workers,
    grouped,
)
from repfl.bench.errors import FINDING, UserError
from repfl.datasets.core.paths import real_path

# -- what there is ---------------------------------------------------------------------------------


@app.command()
def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="one method: its update rule, hyper-parameters and what it sends"),
    ] = None,
    contract: Annotated[
        bool, typer.Option("--contract", help="check what every method must keep")
    ] = False,
    as_json: AsJson = False,
    markdown: Annotated[
        Path | None, typer.Option(help="also write what --contract found to this file")
    ] = None,
) -> int:
    """The methods, or one of them in detail."""
    from repfl.bench.cli import listing, show

    if contract:
        from repfl.bench.cli import promises

        return promises.contract([name] if name else listing.method_names(), markdown)
    if name:
        facts: Any = listing.method_facts(name)
        print_json(facts) if as_json else show.method(facts)
    else:
        facts = [listing.method_facts(each) for each in listing.method_names()]
        print_json(facts) if as_json else show.methods(facts)
    return 0


@app.command()
def datasets(as_json: AsJson = False) -> int:
    """The datasets: what is there, what needs it."""
    from repfl.bench.cli import show
    from repfl.bench.cli.data import catalogue

    facts = catalogue()
    print_json(facts) if as_json else show.datasets(facts)
    return 0


@app.command()
def models(as_json: AsJson = False) -> int:
    """The models, with their sizes."""
    from repfl.bench.cli import listing, show

    facts = listing.model_facts()
    print_json(facts) if as_json else show.models(facts)
    return 0


@app.command()
def partitions(as_json: AsJson = False) -> int:
    """The partition rules, with their options."""
    from repfl.bench.cli import listing, show

    facts = listing.partition_facts()
    print_json(facts) if as_json else show.partitions(facts)
    return 0


@app.command()
def recipes(scale: PaperScale = "paper", grid: Grids = None, as_json: AsJson = False) -> int:
    """The recipes of all grids: data, model, clients, rounds."""
    from repfl.bench.cli import listing, show

    facts = listing.recipe_facts(scale or "paper", grid or ())
    print_json(facts) if as_json else show.recipes(facts)
    return 0


@app.command()
def artefacts(results: Results = None, as_json: AsJson = False) -> int:
    """Tables and figures: cells needed and done, per scale."""
    from repfl.bench.cli import listing, show
    from repfl.bench.grid import grid
    from repfl.bench.grid.plan import Selection, plan
    from repfl.bench.store.store import Store

    plans = {scale: plan(Selection(scale=scale)) for scale in grid.SCALES}
    facts = listing.artefact_facts(plans, Store(results))
    print_json(facts) if as_json else show.artefacts(facts)
    return 0


@app.command()
@grouped
def best(chosen: Chosen, results: Results = None, as_json: AsJson = False) -> int:
    """Which row of a sweep is the best, per method and recipe: chosen by validation accuracy, with
    the test accuracy and the number of trials beside it. Of records, and of the values that came
    with the code.
    """
    from repfl.bench.cli import choosing

    found, problems = choosing.found(select(chosen), results)
    print_json(choosing.facts(found)) if as_json else choosing.show(found)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return FINDING if problems else 0


# -- trust -----------------------------------------------------------------------------------------


@app.command(name="show")
def show_cell(
    cell: Annotated[str, typer.Argument(help="a cell's id, or how it starts")],
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """One record: configuration, curves, provenance, and the command that makes it again."""
    from repfl.bench.cli import one
    from repfl.bench.store.store import Store

    found = one.find(Store(results), cell)
    print_json(found.record.json) if as_json else one.show(found)
    return 0


@app.command()
def evidence(
    statement: Annotated[
        str,
        typer.Argument(
            help="PAPER/CLAIM as in the report, PAPER/FILE:LINE of published/, or PAPER/ARTEFACT"
        ),
    ],
) -> int:
    """The numbers behind a claim or a published number, from the values that came with the code."""
    from repfl.bench.report import lookup

    print("\n".join(lookup.told(statement)))
    return 0


@app.command()
def verify(
    results: Results = None,
    rerun: Annotated[
        int, typer.Option(help="compute so many random cells again and compare", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option(help="of the choice of those cells", min=0)] = 0,
    measured: Annotated[
        bool, typer.Option("--measured", help="the values that came with the code, not the store")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="note which measured lines came out again, to the bit")
    ] = False,
    paper: Papers = None,
) -> int:
    """Is every record as it was written, and does it come out again?"""
    from repfl.bench.check import verify as verification
    from repfl.bench.cli import show
    from repfl.bench.store.store import Store

    if measured:
        from repfl.bench.evidence import recheck

        return show.findings(recheck.verify(paper or (), rerun, seed, keep=keep))
    for name, given in (("--paper", paper), ("--keep", keep)):
        if given:
            raise UserError(f"verify {name} needs --measured: the values that came with the code")
    return show.findings(verification.verify(Store(results), rerun, seed))


@app.command()
def collect(
    paper: Papers = None,
    artefact: Artefacts = None,
    method: Methods = None,
    scale: PaperScale = "paper",
    results: FromResults = None,
    contributor: Annotated[
        str, typer.Option(help="whose runs they are (default: REPFL_CONTRIBUTOR, else git's name)")
    ] = "",
) -> int:
    """Copy finished cells into paper_tables/<paper>/measured, where they travel with the code."""
    from repfl.bench.cli import show
    from repfl.bench.evidence.collect import collect as write
    from repfl.bench.store.store import Store

    return show.collected(
        write(
            select(Chosen(paper=paper, artefact=artefact, method=method, scale=scale), beside=True),
            Store(results),
            None,
            contributor,
        )
    )


@app.command()
def check(
    reference: Annotated[
        Path | None, typer.Option(help="file to compare with (default: the committed one)")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="take today's numbers as the reference")
    ] = False,
    reason: Annotated[str, typer.Option(help="why they are right; kept in the reference")] = "",
    method: Annotated[
        list[str] | None, typer.Option("--method", help="only this method; repeatable")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="also write what moved to this file, for a CI's page")
    ] = None,
    workers: Workers = None,
    plugin: Plugins = None,
) -> int:
    """Has anything that methods compute moved?"""
    from repfl.bench.check import regress
    from repfl.bench.cli import moves, show
    from repfl.bench.grid import plugins

    if plugin or method:  # asked for all, the gate is of our methods, whatever else is installed
        plugins.load(plugin or ())
    files = tuple(str(real_path(path)) for path in plugin or ())
    if accept:
        return show.accepted(regress.accept(reference, reason, method or (), workers, files))
    return moves.regression(regress.check(reference, method or (), workers, files), markdown)


@app.command()
def doctor(results: Results = None, as_json: AsJson = False) -> int:
    """What is wrong with this environment?"""
    from repfl.bench.cli import doctor as medicine
    from repfl.bench.cli import show

    findings = medicine.examine(results)
    print_json([finding.__dict__ for finding in findings]) if as_json else show.diagnosis(findings)
    return FINDING if any(finding.level == "bad" for finding in findings) else 0
