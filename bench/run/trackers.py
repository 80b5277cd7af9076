"""Trackers, such as TensorBoard: they receive a run's curves while it runs.

A tracker is any class with the three methods of `Tracker`; `--track module:Class` names one of your
own. Trackers are imported only on request. One that fails causes a warning and does not stop the
cell.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from repfl.bench.errors import UserError, one_line
from repfl.bench.grid.cell import Cell

BUILT_IN = {"tensorboard": "TensorBoard", "wandb": "WandB", "mlflow": "MLflow"}


class Tracker(Protocol):
    """Follows a run. A resumed run starts its tracker again, with the same cell."""

    def on_run_start(self, cell: Cell, folder: Path) -> None:
        """Begin; `folder`, beside the records, is for what the tracker writes."""

    def on_round(self, number: int, values: Mapping[str, float]) -> None:
        """Take the values of all curves after a round, such as `post_agg/mean`."""

    def on_run_end(self, status: str) -> None:
        """End: `done`, or the name of what ended the run, such as `interrupted`."""


def create(name: str) -> Tracker:
    """Return a tracker by its name; raise a `UserError` if there is none."""
    module, colon, class_name = name.partition(":")
    if name in BUILT_IN:
        module, colon, class_name = __name__, ":", BUILT_IN[name]
    if not colon:
        valid = ", ".join(BUILT_IN)
        raise UserError(f"track {name!r} is not valid; valid: {valid}, or module:Class")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # where a module of one's own is likely to be
    try:
        tracker: Tracker = getattr(import_module(module), class_name)()
        for method in ("on_run_start", "on_round", "on_run_end"):
            getattr(tracker, method)
    except Exception as error:
        absent = isinstance(error, ImportError) and name in BUILT_IN
        hint = '; pip install "repfl[trackers]"' if absent else ""
        raise UserError(f"track {name}: {one_line(error)}{hint}") from None
    return tracker


@contextmanager
def following(
    name: str, cell: Cell, results: str
) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Context manager: follow a run; yield the function to call after each round."""
    from repfl.bench.grid.torch_state import preserve_random_state

    tracker = create(name) if name else None

    def call(method: str, *arguments: Any) -> None:
        nonlocal tracker
        try:
            with preserve_random_state():
                getattr(tracker, method)(*arguments)
        except Exception as error:
            tracker = None
            warnings.warn(f"track {name} fails, the run goes on: {one_line(error)}", stacklevel=2)

    if tracker:
        call("on_run_start", cell, Path(results, ".tracking"))
    status = "done"
    try:
        yield lambda number, values: call("on_round", number, values) if tracker else None
    except BaseException as error:
        status = type(error).__name__.lower()
        raise
    finally:
        if tracker:
            call("on_run_end", status)


def title(cell: Cell) -> str:
    return f"{cell.method}-{cell.recipe.dataset}-{cell.seed}-{cell.id[:12]}"


class TensorBoard:
    """Event files; `tensorboard --logdir RESULTS/.tracking/tensorboard` shows them."""

    def __init__(self) -> None:
        self.make = import_module("torch.utils.tensorboard").SummaryWriter

    def on_run_start(self, cell: Cell, folder: Path) -> None:
        self.writer = self.make(str(folder / "tensorboard" / title(cell)))

    def on_round(self, number: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, number)

    def on_run_end(self, status: str) -> None:
        self.writer.close()


class WandB:
    """A run of Weights & Biases, in the project that WANDB_PROJECT names."""

    def __init__(self) -> None:
        self.package = import_module("wandb")

    def on_run_start(self, cell: Cell, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        how = {"id": cell.id[:32], "resume": "allow", "dir": str(folder)}
        self.run = self.package.init(name=title(cell), config=cell.json, **how)

    def on_round(self, number: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=number)

    def on_run_end(self, status: str) -> None:
        self.run.finish(exit_code=0 if status == "done" else 1)


class MLflow:
    """A run of MLflow, at MLFLOW_TRACKING_URI or where MLflow writes by default."""

    def __init__(self) -> None:
        self.package = import_module("mlflow")

    def on_run_start(self, cell: Cell, folder: Path) -> None:
        earlier = self.package.search_runs(
            filter_string=f"tags.`repfl.cell` = '{cell.id}'", output_format="list"
        )
        run = {"run_id": earlier[0].info.run_id} if earlier else {"run_name": title(cell)}
        self.package.start_run(**run, tags={"repfl.cell": cell.id})
        self.package.log_params({"method": cell.method, "seed": cell.seed, **cell.options})

    def on_round(self, number: int, values: Mapping[str, float]) -> None:
        self.package.log_metrics(dict(values), step=number)

    def on_run_end(self, status: str) -> None:
        self.package.end_run("FINISHED" if status == "done" else "FAILED")
