"""The options that several commands share, and the groups of them that go together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from repfl.bench.errors import UserError
from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    from repfl.bench.grid.planned import Planned
    from repfl.bench.store.store import Store

Papers = Annotated[
    list[str] | None, typer.Option("--paper", metavar="PAPER", help="only this paper; repeatable")
]
Artefacts = Annotated[
    list[str] | None,
    typer.Option("--artefact", metavar="PAPER/NAME", help="only this table or figure; repeatable"),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="METHOD",
        help=(
            r"only this method, name or name\[option=value]; one that the selected tables lack is"
            r" added to them; repeatable"
        ),
    ),
]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="DATASET", help="only this dataset; repeatable"),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="COLUMN", help="only this column of the tables; repeatable"),
]
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", metavar="N", min=0, help="only this seed; repeatable")
]
Cells = Annotated[
    list[str] | None,
    typer.Option("--cell", metavar="ID", help="only the cell whose id starts so; repeatable"),
]
Scale = Annotated[
    str | None,
    typer.Option(
        "--scale",  # typer 0.27 would take the name from the metavar
        metavar="SCALE",
        help="smoke, desk or paper (default: smoke, except in report and show)",
    ),
]
PaperScale = Annotated[
    str, typer.Option("--scale", metavar="SCALE", help="smoke, desk or paper (default: paper)")
]
Grids = Annotated[
    list[Path] | None,
    typer.Option("--grid", metavar="FILE", help="a grid file of your own; repeatable"),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="PATH",
        help=(
            "a Python file that registers methods, datasets, models or partition rules, or the"
            " folder of a paper; repeatable"
        ),
    ),
]
Results = Annotated[
    Path | None, typer.Option(help="folder of records (default: REPFL_RESULTS, else ./results)")
]
Out = Annotated[Path, typer.Option(help="folder of the report")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Executor = Annotated[
    str | None,
    typer.Option(
        help=(
            "inline, processes or ray, whose cluster RAY_ADDRESS names (default: processes for"
            " several cells on a CPU)"
        )
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="number of processes (default: one per processor)")
]
PerGpu = Annotated[int, typer.Option("--per-gpu", help="cells that share one GPU")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Stack = Annotated[
    int | None, typer.Option(help="clients trained at once (default: 1, or 32 for a tiny model)")
]
Precision = Annotated[str, typer.Option(help="default (TF32 on a GPU), fp32 (no TF32) or fp64")]
Unmeasured = Annotated[
    bool, typer.Option("--unmeasured", help="only cells without a committed run")
]
Stale = Annotated[
    bool,
    typer.Option(
        "--stale",
        help="only cells whose value, stored or committed, is of other versions or other data",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="compute finished cells again; interrupted cells continue from their checkpoint",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(help="only the i-th of n equal parts of the cells, i/n; for job arrays"),
]
KeepModels = Annotated[
    str, typer.Option(help="keep the clients' models beside the record: last or best round")
]
Track = Annotated[
    str, typer.Option(help="follow runs by tensorboard, wandb, mlflow or your own module:Class")
]
Checkpoint = Annotated[float, typer.Option(help="seconds between two checkpoints of a cell")]


@dataclass(frozen=True)
class Chosen:
    """Which cells of which grids."""

    paper: Papers = None
    artefact: Artefacts = None
    method: Methods = None
    dataset: Datasets = None
    column: Columns = None
    seed: Seeds = None
    cell: Cells = None
    scale: Scale = None
    grid: Grids = None
    plugin: Plugins = None

    def __post_init__(self) -> None:
        """Add the plug-ins that the grid files name."""
        from repfl.bench.grid.grid import with_named

        if self.grid:
            object.__setattr__(self, "plugin", with_named(self.plugin or (), self.grid))


@dataclass(frozen=True)
class Launch:
    """Where and how to run them."""

    executor: Executor = None
    workers: Workers = None
    device: Device = "auto"
    per_gpu: PerGpu = 1
    stack: Stack = None
    precision: Precision = "default"
    results: Results = None
    fresh: Fresh = False
    checkpoint: Checkpoint = 60.0
    keep_models: KeepModels = ""
    track: Track = ""


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command with an option for every field of its parameters `Chosen` and `Launch`."""
    groups: dict[str, type] = {}
    options: list[Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        if isinstance(group := hints[name], type) and is_dataclass(group):
            groups[name] = group
            kinds = get_type_hints(group, include_extras=True)
            options += [
                Parameter(
                    f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=kinds[f.name]
                )
                for f in fields(group)
            ]
        else:
            options.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def flat(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
        return command(**values)

    flat.__signature__ = Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat


# -- selections ------------------------------------------------------------------------------------


def select(
    chosen: Chosen, shard: str | None = None, unmeasured: bool = False, *, beside: bool = False
) -> list[Planned]:
    """Return the planned cells that the selectors leave; `beside`: with the rows of the tables that
    a method is added to.
    """
    from repfl.bench.grid import plugins
    from repfl.bench.grid.plan import Selection, plan
    from repfl.bench.grid.plan import shard as cut

    for name in ("paper", "artefact", "method", "dataset", "column", "cell"):
        if "" in (getattr(chosen, name) or ()):
            raise UserError(f"--{name} is empty; name one, or leave the option out")
    plugins.load(chosen.plugin or ())
    selectors: dict[str, Any] = {
        "papers": chosen.paper,
        "artefacts": chosen.artefact,
        "methods": chosen.method,
        "datasets": chosen.dataset,
        "columns": chosen.column,
        "seeds": chosen.seed,
        "cells": chosen.cell,
        "scale": chosen.scale,
        "files": chosen.grid,
    }
    # of selectors that are not given, the defaults
    selection = Selection(**{name: value for name, value in selectors.items() if value})
    planned = plan(selection, beside=beside)
    if shard:
        from repfl.bench.run import cost

        planned = cut(planned, shard, cost.static)
    if unmeasured:
        from repfl.bench.evidence.committed.committed_runs import unmeasured as only

        planned = only(planned)
    return planned


# -- commands that a message recommends ------------------------------------------------------------


def command(name: str, chosen: Chosen, store: Store, *flags: str) -> str:
    """Return a command that is about the same cells, plug-ins and records as the present one; a
    grid brings the plug-ins that it names.
    """
    from repfl.bench.grid.grid import plugins_of

    selected = {key: value for key, value in vars(chosen).items() if value and key != "plugin"}
    words = ["repfl", name, *flags]
    for key, value in selected.items():
        for each in [value] if isinstance(value, str) else value:
            words += [f"--{key}", quote(str(each))]
    named = {real_path(p) for path in chosen.grid or () for p in plugins_of(Path(path))}
    plugins = [path for path in chosen.plugin or () if real_path(path) not in named]
    return " ".join(words) + again(plugins, store)


def again(plugins: Sequence[str], store: Store) -> str:
    """Return the options by which a command finds the same plug-ins and the same records."""
    usual = real_path(store.root) == real_path(type(store)(None).root)
    parts = [("--plugin", path) for path in plugins]
    parts += [] if usual else [("--results", str(store.root))]
    return "".join(f" {option} {quote(value)}" for option, value in parts)
