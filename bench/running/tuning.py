"""How a cell is computed on its device, where that is left open: on a processor by the size of a
step, so that all processors do alike; on a GPU measured once per device, model, batch and cohort,
then remembered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from filelock import FileLock

from repfl.bench.cells.cell import Cell, canonical
from repfl.bench.cells.needs import participants
from repfl.bench.cells.valid import recipe_from
from repfl.bench.records import provenance
from repfl.bench.records.store import write_synced
from repfl.bench.running import operations
from repfl.bench.running.clients import clients_of
from repfl.bench.running.devices import clear
from repfl.bench.running.task import Options
from repfl.datasets.core.paths import expanded

if TYPE_CHECKING:
    from repfl.algorithms.core.tuning import Job

VERSION = 2
AGREED = {"chunk": 32, "lanes": 0, "conv": "auto"}
"""Where nothing could be measured."""


def settled(options: Options, cell: Cell) -> Options:
    """The options with a definite number of clients at once."""
    if not options.device.startswith("cuda"):
        conv = options.conv or operations.convolution(cell.recipe, options.precision)
        return replace(options, chunk=options.chunk or _many(cell), conv=conv, lanes=0)
    if not clients_of(cell).model.stacked:
        return replace(options, chunk=1, lanes=0)
    if options.chunk:
        return options
    job = _job(options, cell)
    known, key = _read(), _key(options, job)
    if key not in known:
        with _alone():
            known = _read()  # another process may have measured it meanwhile
            if key not in known:
                known |= {key: _measured(job)}
                trials = known[key]["trials"]
                if not (trials and all("refused" in trial for trial in trials)):
                    _write(known)  # what failed here and now may work another time
    _chosen.append((key, known[key]["choice"]))
    return replace(options, **known[key]["choice"])


def _many(cell: Cell) -> int:
    """On a processor, where a model that knows no client axis takes one."""
    chunk = operations.together(cell.recipe)
    return chunk if chunk == 1 or clients_of(cell).model.stacked else 1


_chosen: list[tuple[str, dict[str, Any]]] = []
"""Which remembered choice this process has taken last."""


def smaller(options: Options) -> Options | None:
    """Half as many clients at once, for a device whose memory has run out; none: it was one
    already. A remembered choice is halved too, so that the next cell does not start too large.
    """
    less = _half(options)
    key, choice = _chosen[-1] if _chosen else ("", {})
    if less is not None and choice and all(getattr(options, n) == v for n, v in choice.items()):
        with _alone():
            known = _read()
            if known.get(key, {}).get("choice") == choice:
                known[key]["choice"] = {name: getattr(less, name) for name in choice}
                _write(known)
        _chosen[-1] = key, {name: getattr(less, name) for name in choice}
    return less


def _half(options: Options) -> Options | None:
    if options.lanes > 1:
        return replace(options, lanes=options.lanes // 2)
    if options.chunk > 1:
        return replace(options, chunk=options.chunk // 2)
    return replace(options, lanes=0) if options.lanes else None


def _job(options: Options, cell: Cell) -> Job:
    import torch

    from repfl.algorithms.core.lowering import Precision
    from repfl.algorithms.core.tuning import Job

    recipe, clients = recipe_from(cell.recipe, "recipe"), clients_of(cell)
    cohort = participants(cell.method, cell.recipe)
    dtype = torch.float64 if options.precision == "fp64" else torch.float32
    data, precision = clients.data, cast(Precision, options.precision)
    return Job(
        clients.model,
        recipe,
        data.input_shape,
        data.classes,
        cohort,
        options.device,
        dtype,
        precision,
    )


def _key(options: Options, job: Job) -> str:
    """Everything that a choice depends on."""
    where = provenance.platform_of(options.device, options.precision)["fingerprint"]
    training = job.recipe.training
    parts = [
        VERSION,
        where,
        job.model.name,
        job.shape,
        job.classes,
        training.batch,
        bool(training.momentum),
        job.cohort,
        options.precision,
    ]
    return sha256(canonical({"parts": parts}).encode()).hexdigest()[:24]


def _measured(job: Any) -> dict[str, Any]:
    """The best way, with what every way took."""
    from repfl.algorithms.core.tuning import candidates, measure, tune

    trials = tune(list(candidates(job.cohort, job.precision)), lambda way: measure(job, way))
    clear(job.device)  # what trials took is not what the cell takes
    names = ("chunk", "lanes", "conv")
    best = trials[0]
    choice = (
        {name: getattr(best.lowering, name) for name in names}
        if isfinite(best.seconds)
        else dict(AGREED)
    )
    told = [
        {name: getattr(trial.lowering, name) for name in names}
        | (
            {"microseconds": round(trial.seconds * 1e6, 2)}
            if isfinite(trial.seconds)
            else {"refused": trial.note}
        )
        for trial in trials
    ]
    what = (
        f"{job.model.name}, batch {job.recipe.training.batch}, {job.cohort} clients,"
        f" {provenance.device_name(job.device)}"
    )
    return {"what": what, "choice": choice, "trials": told}


def path() -> Path:
    """Where choices are remembered."""
    return expanded(os.environ.get("REPFL_TUNED", "~/.cache/repfl/tuned.json"))


@contextmanager
def _alone() -> Iterator[None]:
    """One process measures, the others wait and then know: cells of one kind are computed alike,
    and trials disturb each other less.
    """
    with ExitStack() as held:
        with suppress(OSError):  # nowhere to remember anything, nowhere for a lock
            path().parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(path().with_suffix(".lock")))
        yield


def _read() -> dict[str, Any]:
    try:
        found = json.loads(path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    usable = found.items() if isinstance(found, dict) else ()
    return {
        key: told
        for key, told in usable
        if isinstance(told, dict) and told.get("choice", {}).keys() == AGREED.keys()
    }


def _write(known: dict[str, Any]) -> None:
    """Remember choices; where that is not possible they are measured again."""
    fresh = path().with_suffix(f".{os.getpid()}.tmp")
    with suppress(OSError):
        fresh.parent.mkdir(parents=True, exist_ok=True)
        write_synced(fresh, json.dumps(known, indent=1, sort_keys=True).encode())
        fresh.replace(path())
