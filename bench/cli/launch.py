"""From what the user asked for to a run that may begin: every value checked, with one line for one
that cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import UserError
from repfl.datasets.core.paths import real_path

if TYPE_CHECKING:
    from repfl.bench.cli.options import Launch
    from repfl.bench.grid.plan import Planned
    from repfl.bench.run.runner import Ending
    from repfl.bench.run.task import Options


def run(planned: Sequence[Planned], launch: Launch, plugins: Sequence[str] | None) -> Ending:
    """Run what is missing of the planned cells, and say what came of it."""
    from repfl.bench.cli import show
    from repfl.bench.run import progress, runner

    options = options_of(launch, plugins or ())
    told = progress.make()
    how = launch.executor, launch.workers
    summary = runner.run(planned, options, *how, told)
    show.summary(summary, planned, options)
    return summary


def options_of(launch: Launch, plugins: Sequence[str]) -> Options:
    """What workers are told; refused where a value cannot be meant."""
    from repfl.bench.run.task import Options
    from repfl.bench.store.store import Store

    where = _where(launch)
    how = _how(launch)
    for name, value in (("--time-limit", launch.time_limit), ("--checkpoint", launch.checkpoint)):
        if value is not None and not value > 0:
            raise UserError(f"{name} {value:g} is not valid; valid: a number > 0")
    return Options(
        results=str(real_path(Store(launch.results).root)),
        **where,
        **how,
        checkpoint_every=launch.checkpoint,
        time_limit=launch.time_limit,
        fresh=launch.fresh,
        plugins=tuple(str(real_path(path)) for path in plugins),
    )


def _where(launch: Launch) -> dict[str, Any]:
    """On which devices."""
    from repfl.bench.run import devices, runner

    runner.check_executor(launch.executor, launch.workers)
    device = runner.resolve_device(launch.device, launch.executor, launch.workers, launch.address)
    workers = None if launch.executor == "ray" else launch.workers
    return {
        "device": device,
        "per_gpu": devices.share(launch.per_gpu, workers, device),
        "address": launch.address,
    }


def _how(launch: Launch) -> dict[str, Any]:
    """How the device computes."""
    from repfl.algorithms.engine.precision import PRECISIONS

    if launch.precision not in PRECISIONS:
        raise UserError(
            f"--precision {launch.precision!r} is not valid; valid: {', '.join(PRECISIONS)}"
        )
    if launch.stack is not None and launch.stack < 1:
        raise UserError(f"--stack {launch.stack} is not valid; valid: a whole number >= 1")
    return {"stack": launch.stack or 0, "precision": launch.precision}
