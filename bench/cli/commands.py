"""The commands of `repfl`. Each imports what it needs when it is called, so that none waits for another's libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bench.cli.options import (
    Address,
    Artefacts,
    AsJson,
    Cells,
    Checkpoint,
    Chunk,
    Datasets,
    Device,
    Executor,
    Fresh,
    Grids,
    Lanes,
    Methods,
    Out,
    Papers,
    PerGpu,
    Plugins,
    Precision,
    Results,
    Scale,
    Seeds,
    Shard,
    TimeLimit,
    Unmeasured,
    Workers,
)
from bench.errors import FINDING, UserError

if TYPE_CHECKING:
    from bench.cells.plan import Planned
    from bench.running.runner import Summary

app = typer.Typer(
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Regenerates the tables and figures of five papers on personalised federated learning, beside what they print. "
    "Exit codes: 0 fine; 1 a finding; 2 wrong input; 3 some cells failed; 130 and 143 stopped by a signal.",
)


@app.callback()
def _root() -> None:
    """Makes `repfl` a group of commands even if there were only one."""


def select(
    papers: list[str] | None,
    artefacts: list[str] | None,
    methods: list[str] | None,
    datasets: list[str] | None,
    seeds: list[int] | None,
    cells: list[str] | None,
    scale: str,
    grids: list[Path] | None,
    plugins: list[str] | None,
    shard: str | None = None,
) -> list[Planned]:
    """The planned cells that the selectors leave."""
    from bench.cells import plan
    from bench.cells import plugins as extensions

    extensions.load(plugins or ())
    wanted = (papers or (), artefacts or (), methods or (), datasets or (), seeds or (), cells or ())
    planned = plan.plan(plan.Selection(*wanted, scale=scale, files=grids or ()))
    if not shard:
        return planned
    from bench.running import cost

    return plan.shard(planned, shard, cost.static)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


# -- plan, run, report ---------------------------------------------------------------------------------------------------------------------


@app.command()
def plan(
    paper: Papers = None,
    artefact: Artefacts = None,
    method: Methods = None,
    dataset: Datasets = None,
    seed: Seeds = None,
    cell: Cells = None,
    scale: Scale = "smoke",
    grid: Grids = None,
    plugin: Plugins = None,
    shard: Shard = None,
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """Cells, what is done, what is missing and why, and what the rest will cost."""
    from bench.cli import show
    from bench.cli.status import overview
    from bench.records.store import Store

    planned = select(paper, artefact, method, dataset, seed, cell, scale, grid, plugin, shard)
    facts = overview(planned, Store(results))
    if as_json:
        print_json(facts)
    else:
        show.plan(facts)
    return 0


@app.command()
def run(
    paper: Papers = None,
    artefact: Artefacts = None,
    method: Methods = None,
    dataset: Datasets = None,
    seed: Seeds = None,
    cell: Cells = None,
    scale: Scale = "smoke",
    grid: Grids = None,
    plugin: Plugins = None,
    shard: Shard = None,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "auto",
    per_gpu: PerGpu = None,
    address: Address = "",
    chunk: Chunk = None,
    lanes: Lanes = None,
    precision: Precision = "default",
    results: Results = None,
    fresh: Fresh = False,
    unmeasured: Unmeasured = False,
    time_limit: TimeLimit = None,
    checkpoint: Checkpoint = 60.0,
) -> int:
    """Compute what is missing."""
    planned = select(paper, artefact, method, dataset, seed, cell, scale, grid, plugin, shard)
    if unmeasured:
        from bench.evidence.measured import unmeasured as only

        planned = only(planned)
    where = _device(device, executor, workers, per_gpu, address)
    return _run(
        planned,
        _options(results, where, _lowering(where, chunk, lanes, precision), fresh, time_limit, checkpoint, plugin),
        executor,
        workers,
    ).exit_code


@app.command()
def report(
    paper: Papers = None,
    artefact: Artefacts = None,
    method: Methods = None,
    dataset: Datasets = None,
    seed: Seeds = None,
    cell: Cells = None,
    scale: Scale = "smoke",
    grid: Grids = None,
    plugin: Plugins = None,
    results: Results = None,
    out: Out = Path("report"),
) -> int:
    """Tables (csv, md, tex), figures (png, pdf) and index.html from what is stored."""
    return _report(select(paper, artefact, method, dataset, seed, cell, scale, grid, plugin), results, out)


@app.command()
def reproduce(
    paper: Papers = None,
    artefact: Artefacts = None,
    method: Methods = None,
    dataset: Datasets = None,
    seed: Seeds = None,
    cell: Cells = None,
    scale: Scale = "smoke",
    grid: Grids = None,
    plugin: Plugins = None,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "auto",
    per_gpu: PerGpu = None,
    address: Address = "",
    chunk: Chunk = None,
    lanes: Lanes = None,
    precision: Precision = "default",
    results: Results = None,
    fresh: Fresh = False,
    time_limit: TimeLimit = None,
    checkpoint: Checkpoint = 60.0,
    out: Out = Path("report"),
) -> int:
    """Run, then report."""
    planned = select(paper, artefact, method, dataset, seed, cell, scale, grid, plugin)
    where = _device(device, executor, workers, per_gpu, address)
    summary = _run(
        planned,
        _options(results, where, _lowering(where, chunk, lanes, precision), fresh, time_limit, checkpoint, plugin),
        executor,
        workers,
    )
    if summary.signal:
        return summary.exit_code
    found = _report(planned, results, out)
    return summary.exit_code or found


def _device(wanted: str, executor: str | None, workers: int | None, per_gpu: str | None, address: str) -> dict[str, Any]:
    """On which devices to run, checked."""
    from bench.running import devices, runner

    runner.check_executor(executor, workers)
    device = runner.resolve_device(wanted, executor, workers, address)
    return {"device": device, "per_gpu": devices.share(per_gpu, None if executor == "ray" else workers, device), "address": address}


def _lowering(where: dict[str, Any], chunk: int | None, lanes: int | None, precision: str) -> dict[str, Any]:
    """How a device is to compute, checked; what is left open on a GPU is measured when a cell begins."""
    from algorithms.core.lowering import PRECISIONS

    if precision not in PRECISIONS:
        raise UserError(f"--precision {precision!r} is not valid; valid: {', '.join(PRECISIONS)}")
    for name, value, least in (("--chunk", chunk, 1), ("--lanes", lanes, 0)):
        if value is not None and value < least:
            raise UserError(f"{name} {value} is not valid; valid: a whole number >= {least}")
    if where["device"] == "cpu":
        if lanes:
            raise UserError("--lanes needs a GPU; on a CPU, cells run side by side instead: --workers")
        return {"chunk": chunk or 1, "precision": precision}
    if chunk is None and lanes is None:
        return {"chunk": 0, "precision": precision}
    return {"chunk": chunk or 1, "lanes": 1 if lanes is None else lanes, "precision": precision}


def _options(
    results: Path | None,
    where: dict[str, Any],
    lowering: dict[str, Any],
    fresh: bool,
    time_limit: float | None,
    checkpoint: float,
    plugins: list[str] | None,
) -> Any:
    """How to run, checked."""
    from bench.records.store import Store
    from bench.running.task import Options

    for name, value in (("--time-limit", time_limit), ("--checkpoint", checkpoint)):
        if value is not None and not value > 0:
            raise UserError(f"{name} {value:g} is not valid; valid: a number > 0")
    return Options(
        results=str(Store(results).root.resolve()),
        **where,
        **lowering,
        checkpoint_every=checkpoint,
        time_limit=time_limit,
        fresh=fresh,
        plugins=tuple(str(Path(path).expanduser().resolve()) for path in plugins or ()),
    )


def _run(planned: list[Planned], options: Any, executor: str | None, workers: int | None) -> Summary:
    from bench.cli import show
    from bench.running import progress, runner

    summary = runner.run(planned, options, executor, workers, progress.make())
    show.summary(summary, planned, options)
    return summary


def _report(planned: list[Planned], results: Path | None, out: Path) -> int:
    """Write the report, print the tables and where the page is."""
    from bench.cli import show
    from bench.evidence import artefacts
    from bench.records.store import Store

    page, made = artefacts.report(planned, Store(results), out)
    show.report(page, made)
    return FINDING if made.problems else 0


def mount_data() -> None:
    """The commands about data live beside the functions they print; imported only when somebody may want them."""
    from bench.cli.data import app as data

    if not app.registered_groups:
        app.add_typer(data, name="data", help="Datasets: list, get, import, verify, show.")
