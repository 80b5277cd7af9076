"""The parts of a record, from a run: its provenance, and the files beside it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import sqrt
from shlex import quote
from typing import TYPE_CHECKING, Any

from repfl.bench.run import cost, machine
from repfl.bench.store import provenance, versions
from repfl.bench.store.contents import Libraries, Platform, Provenance
from repfl.bench.store.digest import of_arrays, of_curves, of_tensors
from repfl.bench.store.record import COLUMNS

if TYPE_CHECKING:
    from torch import Tensor

    from repfl.algorithms.core.run import Run
    from repfl.algorithms.engine.params import Slice
    from repfl.bench.run.clients import Clients
    from repfl.bench.run.task import Clocks, Options, Task
    from repfl.datasets.core.recipe import Recipe

CHUNK = 1 << 24
"""Values that are converted to double precision at once."""


def now() -> str:
    """Return the time in a format that sorts."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def origin(task: Task, options: Options) -> Provenance:
    """Return the provenance that exists before the first round."""
    made = Provenance(
        **provenance.commit(),
        versions=versions.of_cell(task.cell.json),
        libraries=Libraries(**provenance.libraries()),
        machine=provenance.machine(),
        platform=Platform(**provenance.platform_of(options.device, options.precision)),
        device=options.device,
        precision=options.precision,
        chunk=options.stack,
        threads=1,
        command=task.command,
        finished=now(),
    )
    if not made.command.startswith("repfl "):  # a command in Python contains its options already
        return made
    plugins = "".join(f" --plugin {quote(path)}" for path in options.plugins)
    return made.changed(command=made.command + rerun_options(made, task.cell.recipe) + plugins)


def rerun_options(origin: Provenance, recipe: Recipe) -> str:
    """Return the options that repeat a run bit for bit on such a machine."""
    options: dict[str, str | int] = {"device": "cuda"} if origin.on_gpu else {}
    if origin.precision != "default":
        options["precision"] = origin.precision
    if origin.chunk and origin.chunk != cost.stack_for(recipe):
        options["stack"] = origin.chunk
    return "".join(f" --{name} {value}" for name, value in options.items())


def measured(run: Run, clients: Clients, spent: Clocks, options: Options) -> dict[str, Any]:
    """Return the provenance that a finished run adds."""
    seconds = {
        name: sum(value for _, row, value in run.rows if row == f"time/{name}")
        for name in ("train", "evaluate")
    }
    return {
        "data": clients.fingerprints,
        "partition": clients.digest,
        "seconds": {"wall": spent.wall, "processor": spent.processor, **seconds},
        "samples": clients.samples,
        "peak_memory": machine.peak(options.device),
        "digests": digests(run),
    }


def digests(run: Run) -> dict[str, str]:
    """Return what must be equal when the cell is computed again."""
    return {
        "state": of_tensors(run.state),
        "curves": of_curves(run.rows, run.counts),
        "arrays": of_arrays(run.arrays),
    }


def siblings(run: Run) -> dict[str, bytes]:
    """Return the files beside a record."""
    import numpy as np

    files = {
        "rounds.parquet": _parquet(COLUMNS["rounds.parquet"], run.rows),
        "clients.parquet": _parquet(COLUMNS["clients.parquet"], run.counts),
    }
    arrays: dict[str, Any] = run.arrays
    if arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        files["arrays.npz"] = buffer.getvalue()
    return files


def _parquet(types: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Return rows as the bytes of a parquet file."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema(list(types.items()))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in types]
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns, schema=schema), sink)
    return bytes(sink.getvalue())


# -- how large tensors are -------------------------------------------------------------------------


def root_mean_square(tensor: Tensor) -> float:
    """Return the root mean square of the finite values."""
    # part by part, since in double precision all clients' models are twice the run's memory
    squares = sum(float(_squares(part).sum()) for part in tensor.flatten().split(CHUNK))
    return sqrt(squares / tensor.numel())


def _squares(values: Tensor) -> Tensor:
    import torch

    values = values.double()
    return torch.where(values.isfinite(), values, 0.0).square()


def norms(run: Run) -> dict[str, float]:
    """Return root mean squares of the state: of models by group, of other tensors as a whole."""
    sizes: dict[str, float] = {}
    for name, value in sorted(run.state.items()):
        if value.numel() and value.shape[-1:] == (run.fed.params.size,):
            columns = _squares(value.reshape(-1, run.fed.params.size)).mean(0)  # [D]
            for group, parts in _groups(run.fed.params.slices):
                total = sum(float(columns[part.start : part.stop].sum()) for part in parts)
                sizes[f"{name}/{group}"] = sqrt(total / sum(part.size for part in parts))
        elif value.numel():
            sizes[name] = root_mean_square(value)
    return sizes


def _groups(params: Sequence[Slice]) -> Iterator[tuple[str, list[Slice]]]:
    """Yield tensors by kind, the head's separately, in the order in which groups first appear."""
    names = [f"head.{part.kind}" if part.head else part.kind for part in params]
    for group in dict.fromkeys(names):
        yield group, [part for part, groups in zip(params, names, strict=True) if groups == group]


def by_group(rounds: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    """Return one list per group: before the first round, then after each; None if absent."""
    names = dict.fromkeys(name for sizes in rounds for name in sizes)
    return {name: [sizes.get(name) for sizes in rounds] for name in names}
