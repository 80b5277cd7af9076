"""`repfl plan | run | report | reproduce`: from cells to tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repfl.bench.cli.options import (
    AsJson,
    Chosen,
    Launch,
    Out,
    Results,
    Shard,
    Stale,
    Unmeasured,
    again,
    command,
    grouped,
    select,
)
from repfl.bench.cli.printing import print_json, waiting
from repfl.bench.errors import FAILED, FINDING, UserError
from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    from repfl.bench.grid.planned import Planned
    from repfl.bench.report import build
    from repfl.bench.run.runner import Ending
    from repfl.bench.run.task import Options
    from repfl.bench.store.store import Store


@grouped
def plan(
    chosen: Chosen,
    shard: Shard = None,
    unmeasured: Unmeasured = False,
    stale: Stale = False,
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """Show which cells are done, which are missing and why, and what they would cost, cheapest
    first.
    """
    from repfl.bench.cli import printing
    from repfl.bench.evidence import plan_status
    from repfl.bench.store.store import Store

    store = Store(results)
    with waiting("planning"):
        planned = _checked(select(chosen, shard, unmeasured))
        facts = plan_status.overview(planned, store, only_stale=stale)
    if as_json:
        print_json(facts)
    elif stale:
        printing.show_stale(facts)
    else:
        printing.show_plan(facts, lambda name, *flags: command(name, chosen, store, *flags))
    return 0


@grouped
def run(
    chosen: Chosen,
    launch: Launch,
    shard: Shard = None,
    unmeasured: Unmeasured = False,
    stale: Stale = False,
) -> int:
    """Compute what is missing, or what is stale."""
    from repfl.bench.evidence import plan_status
    from repfl.bench.store.store import Store

    planned = _checked(select(chosen, shard, unmeasured))
    if stale:  # a stale record would be taken as it is unless cells are computed again
        planned = plan_status.only_stale(planned, Store(launch.results))
        launch = replace(launch, fresh=True)
    return _compute(planned, launch, chosen).exit_code


@grouped
def report(chosen: Chosen, results: Results = None, out: Out = Path("report")) -> int:
    """Write tables (csv, md, tex), figures (png, pdf) and pages from what is stored; without a
    scale, the best evidence that there is for every number.
    """
    from repfl.bench.store.store import Store

    runs, code = _report(chosen, results, out)
    if not runs:
        print(f"nothing computed yet: {command('run', chosen, Store(results))}")
    return code


@grouped
def reproduce(chosen: Chosen, launch: Launch, out: Out = Path("report")) -> int:
    """Run, then report. A method that joins tables is computed alone, and shown beside what is
    known of their rows.
    """
    from repfl.bench.store.store import Store

    ending = _compute(_checked(select(chosen)), launch, chosen)
    if ending.signal:
        return ending.exit_code
    _, code = _report(chosen, launch.results, out)
    if not (chosen.scale or chosen.grid or chosen.method):
        smoke = command("report", replace(chosen, scale="smoke"), Store(launch.results))
        print(f"shown: the best evidence for every number; what ran, at the scale smoke: `{smoke}`")
    return ending.exit_code or code


def _checked(planned: list[Planned]) -> list[Planned]:
    """Return planned cells; refuse those of an own paper whose published numbers have no place."""
    from repfl.bench.evidence.artefacts import refuse_unplaced
    from repfl.bench.grid.grid import PLUGIN_PAPERS

    for paper in PLUGIN_PAPERS.keys() & {item.paper for item in planned}:
        refuse_unplaced(paper)
    return planned


# -- running ---------------------------------------------------------------------------------------


def _compute(planned: Sequence[Planned], launch: Launch, chosen: Chosen) -> Ending:
    """Run what is missing of the planned cells, and print the outcome."""
    from repfl.bench.cli import printing
    from repfl.bench.run import progress, runner
    from repfl.bench.store.store import Store

    if any(item.paper == "board" for item in planned):
        _admit(planned)
    options = options_of(launch, chosen.plugin or ())
    ending = runner.run(planned, options, launch.executor, launch.workers, progress.Progress())
    store = Store(launch.results)
    printing.show_ending(
        ending,
        planned,
        options,
        lambda name, *flags: command(name, chosen, store, *flags),
        again(chosen.plugin or (), store),
    )
    return ending


def _admit(planned: Sequence[Planned]) -> None:
    """Refuse methods that look at test images, or at validation images without declaring it."""
    from repfl.bench.check.contract import blind, check
    from repfl.bench.grid.methods import entry

    for name in dict.fromkeys(item.cell.method for item in planned):
        ours = entry(name).cls.__module__.startswith("repfl.")
        for _, _, wrong in () if ours else check(name, [blind]):
            if wrong:
                raise UserError(f"method {name} cannot stand on the board: {wrong}")


def options_of(launch: Launch, plugins: Sequence[str]) -> Options:
    """Return the options of workers; raise `UserError` for a value that is not valid."""
    from repfl.algorithms.engine.precision import PRECISIONS
    from repfl.bench.run import kept_models, runner, trackers
    from repfl.bench.run.task import Options
    from repfl.bench.store.store import Store

    runner.check_executor(launch.executor, launch.workers)
    if launch.precision not in PRECISIONS:
        valid = ", ".join(PRECISIONS)
        raise UserError(f"precision {launch.precision!r} is not valid; valid: {valid}")
    if launch.stack is not None and launch.stack < 1:
        raise UserError(f"stack {launch.stack} is not valid; valid: a whole number >= 1")
    if launch.per_gpu < 1:
        raise UserError(f"per-gpu {launch.per_gpu} is not valid; valid: a whole number >= 1")
    if not launch.checkpoint > 0:
        raise UserError(f"checkpoint {launch.checkpoint:g} is not valid; valid: a number > 0")
    kept_models.check(launch.keep_models)
    if launch.track:
        trackers.create(launch.track)
    device = runner.resolve_device(launch.device, launch.executor, launch.workers)
    return Options(
        results=str(real_path(Store(launch.results).root)),
        device=device,
        per_gpu=launch.per_gpu,
        stack=launch.stack or 0,
        precision=launch.precision,
        checkpoint_every=launch.checkpoint,
        fresh=launch.fresh,
        keep_models=launch.keep_models,
        track=launch.track,
        plugins=tuple(str(real_path(path)) for path in plugins),
    )


# -- reporting -------------------------------------------------------------------------------------


def _report(chosen: Chosen, results: Path | None, out: Path) -> tuple[int, int]:
    """Write the report and print its tables; return the number of runs behind it, and the exit
    code.
    """
    from repfl.bench.cli import printing
    from repfl.bench.report import build, unchanged
    from repfl.bench.store.store import Store

    store = Store(results)
    files = [Path(path) for path in (*(chosen.plugin or ()), *(chosen.grid or ()))]
    inputs = unchanged.digest((chosen, str(real_path(store.root))), store, files)
    if (earlier := unchanged.ending(out, inputs)) is not None:
        print(f"report: {real_path(out / 'index.html')}, as written before: nothing has changed")
        return earlier
    with waiting("writing the report"):
        request = _request(chosen, store)
        narrowed = bool(chosen.method or chosen.dataset or chosen.column or chosen.cell)
        options = again(chosen.plugin or (), store)
        request = replace(request, narrowed=narrowed, again=options)
        written = build.report(request, store, out)
    printing.show_report(written)
    code = FAILED if written.failed else FINDING if written.problems else 0
    unchanged.remember(out, inputs, unchanged.Ending(written.runs, code))
    return written.runs, code


def _request(chosen: Chosen, store: Store) -> build.Request:
    """Return the cells to be reported. A method that joins tables, a user's own grid, and a paper
    without results at a larger scale are shown at the scale smoke.
    """
    from repfl.bench.evidence.committed import committed_runs
    from repfl.bench.report import build

    if chosen.scale:
        planned = select(chosen, beside=True)
        return build.Request(planned, planned if chosen.scale == "smoke" else ())
    smoke, refused = _planned(chosen, "smoke")
    if any(item.guest or item.file for item in smoke):
        return build.Request(smoke)
    real = [item for scale in ("paper", "desk") for item in _planned(chosen, scale)[0]]
    if not real and not smoke and refused:
        raise refused
    computed = {*store.ids(), *(cell for _, _, cell in committed_runs.ids())}
    if real and (not smoke or any(item.cell.id in computed for item in real)):
        return build.Request(real, smoke, best=True)
    return build.Request(smoke, smoke)


def _planned(chosen: Chosen, scale: str) -> tuple[list[Planned], UserError | None]:
    """Return the cells of a scale; none, and why, if the selection has none there."""
    try:
        return select(replace(chosen, scale=scale), beside=True), None
    except UserError as error:
        return [], error
