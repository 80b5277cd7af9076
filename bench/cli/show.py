"""`repfl show`: one record, or what is behind a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repfl.bench.cli.options import AsJson, Grids, Plugins, Results, Scale, again
from repfl.bench.cli.printing import leaves, print_json, screen, titled
from repfl.bench.cli.show_statements import statement
from repfl.bench.errors import FINE, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from repfl.bench.evidence.committed.committed_run import Curve
    from repfl.bench.store.record import Record
    from repfl.bench.store.store import Store

SPARKS, WIDTH = "▁▂▃▄▅▆▇█", 60


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CELL",
            help="a cell's id or how it starts; or PAPER/FILE:LINE of published/, PAPER/CLAIM,"
            " PAPER/ARTEFACT",
        ),
    ],
    scale: Scale = None,
    grid: Grids = None,
    plugin: Plugins = None,
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """Show one record (configuration, curves, provenance, and the command that computes it again),
    or the numbers behind a published number, a claim or an artefact. Of an artefact with
    validation data, show which trial validation chooses for each method and recipe.
    """
    from repfl.bench.grid import plugins
    from repfl.bench.grid.grid import files, with_named
    from repfl.bench.store.store import Store

    plugin = with_named(plugin or (), grid or ())
    plugins.load(plugin)
    if "/" in name or name in files():
        return statement(name, scale, grid, plugin, results, as_json)
    shown = find(Store(results), name)
    print_json(shown.record.json) if as_json else show_record(shown)
    return FINE


# -- one record ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownRecord:
    """A record, its curves, and where both are from."""

    record: Record
    curves: Mapping[str, Curve]
    again: str
    """The command that computes it again."""
    note: str = ""


def find(store: Store, prefix: str) -> ShownRecord:
    """Return the record whose id has this prefix, from the store or else from committed runs."""
    from repfl.bench.evidence.committed import committed_runs
    from repfl.bench.evidence.committed.committed_run import by_name
    from repfl.bench.evidence.plan_status import Statuses
    from repfl.bench.store import versions

    stored = [cell for cell in store.ids() if cell.startswith(prefix)]
    if cell := _only_id(prefix, stored, f"records in {store.root}"):
        record = store.whole(cell)
        assert record is not None  # its file was there a moment ago
        command = record.origin.command
        flags = "" if command.startswith("python") else f"{again((), store)} --fresh"
        repeat = f"{command}{flags}" if command else ""
        currency = versions.of_record(record.origin, record.cell)
        note = "" if currency.current else f"stale: {currency.reason}"
        return ShownRecord(record, by_name(store.frame(record, "rounds.parquet")), repeat, note)
    committed = {
        cell: (paper, scale)
        for paper, scale, cell in committed_runs.ids()
        if cell.startswith(prefix)
    }
    if cell := _only_id(prefix, list(committed), "committed runs"):
        return _committed(cell, *committed[cell])
    running = [cell for cell in store.begun() if cell.startswith(prefix)]
    if cell := _only_id(prefix, running, f"cells in {store.running}"):
        raise UserError(f"cell {cell[:12]} has no record yet: {Statuses(store).of(cell).reason}")
    raise UserError(
        f"no record in {store.root} and no committed run has an id that starts with {prefix!r};"
        " `repfl list runs` lists what is stored"
    )


def _only_id(prefix: str, ids: Sequence[str], what: str) -> str:
    """Return the only id; empty if there is none."""
    if len(ids) > 1:
        some = ", ".join(cell[:12] for cell in ids[:5])
        raise UserError(f"{len(ids)} {what} have ids that start with {prefix!r}: {some}")
    return ids[0] if ids else ""


def _committed(cell: str, paper: str, scale: str) -> ShownRecord:
    """Return a committed run, and the command of the grid that plans its cell."""
    from repfl.bench.evidence.committed import committed_runs
    from repfl.bench.grid.plan import Selection, plan
    from repfl.bench.run.record_parts import rerun_options

    measured = committed_runs.read(paper, scale)
    planned = [item for item in plan(Selection([paper], scale=scale)) if item.cell.id == cell]
    line = measured.line(cell)
    if not planned or line is None:
        raise UserError(f"{measured.file}: no grid plans cell {cell[:12]} any more")
    note = f"it came with the code, in {measured.file}"
    if not line.currency.current:
        note += f"; stale: {line.currency.reason}"
    if others := measured.others(line):
        values = ", ".join(_value(each.record) for each in others)
        note += f", one of {len(others) + 1} lines (the others: {values})"
    made = rerun_options(line.record.origin, line.record.recipe)
    return ShownRecord(line.record, line.curves, f"{planned[0].command}{made} --fresh", note)


def show_record(shown: ShownRecord) -> None:
    """Print a record: cell, result, provenance, and the command that repeats it."""
    from rich.text import Text

    from repfl.bench.store import provenance

    out, record = screen(), shown.record
    cell, origin = record.cell, record.origin
    out.print(Text(record.id, "bold"))
    out.print(
        f"{cell['method']} version {cell['version']}, seed {cell['seed']}: {record.status}"
        f" {record.reason}"
    )
    if shown.note:
        out.print(shown.note, soft_wrap=True)
    leaves(out, "hyper-parameters", cell["hp"])
    leaves(out, "recipe", cell["recipe"])
    if record.metrics is not None:
        result = f"{_value(record)} at round {record.metrics.round}{_floor(record)}"
        out.print(titled("result", f"  {result}"))
        _show_curves(out, shown)
    hidden = ("traceback", "command")
    fields = {name: value for name, value in origin.plain.items() if name not in hidden}
    if isinstance(memory := fields.get("peak_memory"), int):
        fields["peak_memory"] = f"{memory / 2**20:,.0f} MiB"
    leaves(out, "provenance", fields)
    if origin.traceback:
        out.print(titled("traceback", f"\n{origin.traceback}"))
    if shown.again:
        out.print(titled("again", f"  {shown.again}"), soft_wrap=True)
        dirty, commit = origin.dirty, origin.commit
        if commit and (dirty or commit != provenance.commit()["commit"]):
            source = f"commit {commit}{', with changed files' if dirty else ''}"
            warning = f"       computed at {source}; other code may not give the same number"
            out.print(warning, soft_wrap=True)


def _value(record: Record) -> str:
    return "-" if record.value is None else f"{100 * record.value:.2f} %"


def _floor(record: Record) -> str:
    """Return the accuracy of a majority-class predictor, in words."""
    if record.metrics is None or (floor := record.metrics.floor) is None:
        return ""
    return f", majority class {100 * floor.by(record.recipe.evaluation.average):.2f} %"


def _show_curves(out: Console, shown: ShownRecord) -> None:
    """Print means over clients by round, and the curve that the result is from."""
    from repfl.bench.store.summary import reported_curve

    result = "/".join(reported_curve(shown.record.recipe.evaluation))
    for name in sorted({name for name in shown.curves if name.endswith("/mean") or name == result}):
        values = shown.curves[name].values.tolist()
        out.print(
            f"  {name:20} {sparkline(values)}  {values[0]:.3f} -> {values[-1]:.3f}, best"
            f" {max(values):.3f}"
        )


def sparkline(values: Sequence[float]) -> str:
    """Return a curve in one line of text, between its own least and greatest value."""
    step = max(1, -(-len(values) // WIDTH))
    shown = [max(values[start : start + step]) for start in range(0, len(values), step)]
    low, high = min(shown), max(shown)
    if high <= low:
        return SPARKS[3] * len(shown)
    return "".join(
        SPARKS[min(len(SPARKS) - 1, int((value - low) / (high - low) * len(SPARKS)))]
        for value in shown
    )
