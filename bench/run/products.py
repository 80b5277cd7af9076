"""What is stored of a run: where it comes from, what came out, and the files beside the record."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite, sqrt
from shlex import quote
from typing import TYPE_CHECKING, Any

from repfl.bench.run import cost, memory
from repfl.bench.store import provenance, versions
from repfl.bench.store.digest import of_arrays, of_curves, of_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from repfl.algorithms.core.run import Run
    from repfl.bench.run.clients import Clients
    from repfl.bench.run.task import Clocks, Options, Task

PART = 1 << 24


def now() -> str:
    """The time, in a form that sorts."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def origin(task: Task, options: Options) -> dict[str, Any]:
    """Provenance that is known before the first round."""
    made = {"device": options.device, "precision": options.precision, "chunk": options.stack}
    plugins = "".join(f" --plugin {quote(path)}" for path in options.plugins)
    return {
        **provenance.commit(),
        "versions": versions.of_cell(task.cell.json),
        "libraries": provenance.libraries(),
        "machine": provenance.machine(),
        "platform": provenance.platform_of(options.device, options.precision),
        **made,
        "threads": 1,
        "command": task.command + as_made(made, task.cell.recipe) + plugins,
        "finished": now(),
    }


def as_made(made: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    """Return the options that repeat a run with the same bits, by its provenance."""
    options = {"precision": made["precision"]} if made["precision"] != "default" else {}
    if made["chunk"] and made["chunk"] != cost.stack_for(recipe):
        options["stack"] = made["chunk"]
    return "".join(f" --{name} {value}" for name, value in options.items())


def measured(run: Run, clients: Clients, spent: Clocks, options: Options) -> dict[str, Any]:
    """Provenance that a finished run adds."""
    parts = {
        name: sum(value for _, row, value in run.rows if row == name)
        for name in ("time/train", "time/evaluate")
    }
    return {
        "data": clients.fingerprints,
        "partition": clients.digest,
        "seconds": {
            "wall": spent.wall,
            **({"processor": spent.processor} if isfinite(spent.processor) else {}),
            "train": parts["time/train"],
            "evaluate": parts["time/evaluate"],
        },
        "samples": clients.samples,
        "peak_memory": _peak(options.device),
        "digests": digests(run),
        "probe": probe(run),
    }


def _peak(device: str) -> int:
    """Bytes that the cell held at most, on the GPU if it computed there."""
    if not device.startswith("cuda"):
        return memory.peak()
    import torch

    return int(torch.cuda.max_memory_allocated())


def probe(run: Run) -> dict[str, float]:
    """The root mean square of every state tensor: what other platforms, where bits differ, can be
    compared by.
    """
    return {
        name: _root_mean_square(value) for name, value in sorted(run.state.items()) if value.numel()
    }


def _root_mean_square(tensor: Tensor) -> float:
    """Over what is finite, in double precision; part by part, since everybody's models in double
    precision are twice the run's memory.
    """
    import torch

    parts = (part.double() for part in tensor.flatten().split(PART))
    return sqrt(
        sum(float(torch.where(part.isfinite(), part, 0.0).square().sum()) for part in parts)
        / tensor.numel()
    )


def digests(run: Run) -> dict[str, str]:
    """What must come out again when the cell is computed again."""
    return {
        "state": of_tensors(run.state),
        "curves": of_curves(run.rows, run.client_rows),
        "arrays": of_arrays(run.arrays),
    }


def siblings(run: Run) -> dict[str, bytes]:
    """The files beside a record."""
    import numpy as np

    rounds = zip(*run.rows, strict=True) if run.rows else ((), (), ())
    clients = zip(*run.client_rows, strict=True) if run.client_rows else ((), (), (), (), ())
    found = {
        "rounds.parquet": _parquet(dict(zip(("round", "name", "value"), rounds, strict=True))),
        "clients.parquet": _parquet(
            dict(zip(("round", "point", "client", "correct", "total"), clients, strict=True))
        ),
    }
    arrays: dict[str, Any] = run.arrays
    if arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        found["arrays.npz"] = buffer.getvalue()
    return found


TYPES = {"name": "string", "point": "string", "value": "float64"}


def _parquet(columns: dict[str, Any]) -> bytes:
    """Columns as the bytes of a parquet file."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([(name, TYPES.get(name, "int32")) for name in columns])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(
        pyarrow.table([list(values) for values in columns.values()], schema=schema), sink
    )
    return bytes(sink.getvalue())
