"""`repfl check | verify | collect | merge`: whether results can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repfl.bench.cli.options import (
    Artefacts,
    Chosen,
    Grids,
    Methods,
    Papers,
    PaperScale,
    Plugins,
    Results,
    Workers,
    select,
)
from repfl.bench.cli.printing import screen, table, waiting
from repfl.bench.errors import FINDING, FINE, UserError, unknown
from repfl.datasets.core.errors import registered
from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    from repfl.bench.check.gate import Regression
    from repfl.bench.check.gate_compare import Move
    from repfl.datasets.core.recipe import Recipe


def check(
    method: Annotated[
        list[str] | None, typer.Option("--method", help="only this method; repeatable")
    ] = None,
    promise: Annotated[
        list[str] | None,
        typer.Option(
            "--promise", help="only the contract, and of it only this promise; repeatable"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="keep the contract on this model; `every-kind` has layers of every kind"),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="keep the contract with this recipe's model, kind of data and training"),
    ] = None,
    grid: Grids = None,
    reference: Annotated[
        Path | None, typer.Option(help="file that the gate compares with (default: ours)")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="take today's numbers as the reference")
    ] = False,
    reason: Annotated[str, typer.Option(help="why they are right; kept in the reference")] = "",
    workers: Workers = None,
    plugin: Plugins = None,
) -> int:
    """Check the accuracy gate (has anything that methods compute moved?), and the contract of the
    methods that are named or come from a plug-in (do they keep what every method must keep?).
    """
    from repfl.bench.check import gate
    from repfl.bench.grid.grid import with_named

    grid, promise = grid or [], promise or []
    plugin = with_named(plugin or (), grid)
    names, files = _loaded(method or [], plugin), tuple(str(real_path(path)) for path in plugin)
    if accept:
        path = gate.accept(reference, reason, names, workers, files)
        print(f"reference written: {path}")
        return FINE
    papers = _check_papers(files)
    if plugin and not (names or promise):
        return _without_methods(plugin, papers)
    model = None if model is None else _registered_model(model)
    settings = _recipes(recipe, grid)
    codes = _contracts(names, promise, model, settings)
    if not (promise or model or settings) and _in_gate(names, reference):
        codes.append(_show_regression(gate.check(reference, names, workers, files)))
    return max(codes)


def _loaded(methods: list[str], paths: Sequence[str]) -> list[str]:
    """Load plug-ins, and return the methods to check: those that are named, or else those that the
    plug-ins register. Without either, the gate is of our methods, whatever else is installed.
    """
    from repfl.bench.grid import plugins

    if methods or paths:
        plugins.load(paths)
    files = [real_path(path) for path in paths]
    return methods or [
        name
        for name in plugins.registries()["method"]
        if (origin := plugins.origin("method", name)) is not None
        and any(origin == file or file in origin.parents for file in files)
    ]


def _check_papers(files: Sequence[str]) -> list[str]:
    """Return the papers of these plug-ins; refuse published numbers without a row and a column."""
    from repfl.bench.evidence.artefacts import refuse_unplaced
    from repfl.bench.grid.grid import PLUGIN_PAPERS

    papers = [paper for paper, file in PLUGIN_PAPERS.items() if str(file.parent) in files]
    for paper in papers:
        refuse_unplaced(paper)
        print(f"{paper}: every published number has a row and a column")
    return papers


def _without_methods(plugin: Sequence[str], papers: Sequence[str]) -> int:
    """Return the exit code of plug-ins without methods, which only papers may be."""
    if papers:
        return FINE
    text = "registers no method; models, data sets and partitions have a test file for pytest"
    raise UserError(f"plugin {', '.join(plugin)}: {text}")


def _recipes(name: str | None, files: Sequence[Path]) -> list[tuple[str, Recipe]]:
    """Return the named recipe, or else all of some grid files, with their full names."""
    from repfl.bench.grid import catalog

    ours = catalog.recipes() if files else {}
    names = [name] if name else [each for each in catalog.recipes(files) if each not in ours]
    if not (name or files):
        return []
    return [catalog.find_recipe(each, None, files)[:2] for each in names]


def _registered_model(model: str) -> str:
    """Return a model's name as it is registered; raise a UserError if there is none."""
    from repfl.algorithms import models
    from repfl.bench.check import toy_model

    names = {*models.MODELS, toy_model.NAME}
    if (name := registered(model, names)) not in names:
        raise unknown("model", model, names)
    return name


def _in_gate(names: Sequence[str], reference: Path | None) -> bool:
    """Return whether a reference has these methods: the user's, or ours, which has all of ours but
    none of plug-ins or in wrappers.
    """
    from repfl.bench.grid import plugins

    if (
        not names
        or reference
        or any("+" not in name and plugins.origin("method", name) is None for name in names)
    ):
        return True
    print(
        "plug-ins and wrappers need no gate; to keep numbers of yours: --accept --reason WHY"
        " --reference FILE"
    )
    return False


# -- the contract ----------------------------------------------------------------------------------


def _contracts(
    names: Sequence[str],
    promises: Sequence[str],
    model: str | None,
    recipes: Sequence[tuple[str, Recipe]],
) -> list[int]:
    """Check the contract with every recipe, or with none; return the exit codes. Nothing is checked
    if nothing is named.
    """
    if not (names or promises or model or recipes):
        return []
    return [_contract(names, promises, model, recipe) for recipe in recipes or (None,)]


def _contract(
    names: Sequence[str],
    promises: Sequence[str],
    model: str | None = None,
    recipe: tuple[str, Recipe] | None = None,
) -> int:
    """Check the contract of methods; return the exit code."""
    from repfl.algorithms.core.method import methods
    from repfl.bench.check import contract
    from repfl.bench.grid.methods import entry

    by_name = {each.__name__: each for each in contract.CONTRACT}
    for promise in promises:
        if promise not in by_name:
            raise unknown("promise", promise, by_name)
    names = [entry(name).name for name in names] or sorted(methods())
    kept = [by_name[each] for each in promises]
    broken = sum(_broken(name, kept, model, recipe, alone=len(names) == 1) for name in names)
    print(f"{len(names)} method{'s' * (len(names) != 1)}, {broken} broken promises")
    return FINDING if broken else FINE


def _broken(
    name: str,
    promises: Sequence[Any],
    model: str | None,
    recipe: tuple[str, Recipe] | None,
    *,
    alone: bool,
) -> int:
    """Check the contract of one method, print what it breaks, and if it is alone what it keeps;
    return how often it breaks a promise.
    """
    from repfl.bench.check import contract

    counts = Counter[str]()
    with waiting(f"{name}: the contract") as status:
        for promise, case, wrong in contract.check(name, promises, model, recipe):
            situation = f"{case.where}, participation {case.participation:g}"
            status.update(f"{name}: {promise} ({situation}) ...")
            counts[wrong] += 1
            if wrong and counts[wrong] == 1:
                print(f"BROKEN  {name}: {promise} ({situation}): {wrong}", flush=True)
            elif alone and not wrong:
                print(f"kept    {name}: {promise} ({situation})", flush=True)
    for case in () if counts.keys() - {""} else contract.situations(name, model, recipe):
        if note := contract.vacuous(case):
            help_ = "--model NAME or --recipe NAME keeps the contract on yours"
            print(f"warning {name}: on {case.where}, {note}; {help_}")
    for wrong, count in counts.items():
        if wrong and count > 1:
            print(f"        {name}: {count - 1} x more: {wrong}")
    return counts.total() - counts[""]


# -- the gate --------------------------------------------------------------------------------------


def _show_regression(gate: Regression) -> int:
    """Print what moved in the gate; return exit code 1 if anything did."""
    out = screen()
    if gate.moved:
        rows = [_row(move) for move in gate.moved]
        out.print(table(rows))
    for note in gate.notes:
        out.print(f"note: {note}")
    moved = len(gate.moved) or "nothing"
    out.print(
        f"{gate.cells} cells of {gate.methods} methods against {gate.reference}: {moved} moved"
    )
    return FINDING if gate.moved else FINE


def _row(move: Move) -> dict[str, str]:
    versions = dict.fromkeys(
        str(version) for version in (move.version_then, move.version_now) if version is not None
    )
    then, now = ("-" if value is None else f"{100 * value:.2f}" for value in (move.then, move.now))
    gap = "" if move.then is None or move.now is None else f"{100 * (move.now - move.then):+.2f}"
    return {
        "method": move.spec,
        "recipe": move.recipe,
        "seeds": ", ".join(map(str, move.seeds)),
        "version": " -> ".join(versions),
        "reference": then,
        "now": now,
        "difference": gap,
        "what moved first": move.why,
    }


# -- stored and committed runs ------------------------------------------------------------------


def verify(
    results: Results = None,
    rerun: Annotated[
        int, typer.Option(help="re-run this number of random cells and compare", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option(help="of the choice of those cells", min=0)] = 0,
    measured: Annotated[
        bool, typer.Option("--measured", help="the committed runs instead of the store")
    ] = False,
    paper: Papers = None,
    plugin: Plugins = None,
) -> int:
    """Is every record as it was written, and is it reproduced?"""
    from repfl.bench.evidence.committed import verify as verification
    from repfl.bench.grid import plugins
    from repfl.bench.store.store import Store

    plugins.load(plugin or ())
    if paper and not measured:
        raise UserError("verify --paper needs --measured: the values that came with the code")
    with waiting("checking"):
        result = (
            verification.of_committed(paper or (), rerun, seed)
            if measured
            else verification.of_store(Store(results), rerun, seed)
        )
    for line in result.findings:
        print(f"finding: {line}")
    for line in result.notes:
        print(f"note: {line}")
    again = f", {result.rerun} computed again" if result.rerun else ""
    count = len(result.findings)
    print(f"{result.records} records checked{again}: {count or 'no'} finding{'s' * (count != 1)}")
    return FINDING if result.findings else FINE


def collect(
    paper: Papers = None,
    artefact: Artefacts = None,
    method: Methods = None,
    scale: PaperScale = "paper",
    results: Results = None,
    plugin: Plugins = None,
) -> int:
    """Copy finished cells into paper_tables/<paper>/measured of this clone, where they travel with
    the code. They are signed with REPFL_CONTRIBUTOR, or with the name that git knows.
    """
    from repfl.bench.evidence.collect import collect as write
    from repfl.bench.store.store import Store

    chosen = Chosen(paper=paper, artefact=artefact, method=method, scale=scale, plugin=plugin)
    if not (store := Store(results)).root.is_dir():
        raise UserError(f"results folder {store.root}: does not exist; name it with --results DIR")
    result = write(select(chosen, beside=True), store, None)
    for path, added, unchanged in result.files:
        print(f"{path}: {added} line{'s' if added != 1 else ''} added, {unchanged} kept")
    for line in result.conflicts:
        print(f"finding: {line}")
    for name, count in sorted(result.unplanned.items()):
        print(f"{count} records of {name} are of no row of this grid: name it with --method")
    if not result.files:
        print("no finished cells to collect")
    return FINDING if result.conflicts else FINE


def merge(
    folder: Annotated[list[Path], typer.Argument(help="results folder to take from; repeatable")],
    results: Results = None,
) -> int:
    """Take the records of other results folders over into yours, such as those of colleagues.

    Every checksum is verified. A record is taken if `repfl run` would compute its cell; a finished
    one of yours is never replaced, and the other folder stays as it is.
    """
    from repfl.bench.store import merge as merging
    from repfl.bench.store.store import Store

    store, findings = Store(results), 0
    for other in [merging.source(path, store) for path in folder]:
        with waiting(f"merging {other.root}"):
            merged = merging.merge(other, store)
        for line in merged.findings:
            print(f"finding: {line}")
        for line in merged.notes:
            print(f"note: {line}")
        findings += len(merged.findings)
        print(f"{other.root} -> {store.root}: {merged.summary}")
    return FINDING if findings else FINE
