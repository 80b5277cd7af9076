"""The options that several commands share, and the groups of them that travel together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from repfl.datasets.core.paths import real_path

if TYPE_CHECKING:
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
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", metavar="N", help="only this seed; repeatable")
]
Cells = Annotated[
    list[str] | None,
    typer.Option("--cell", metavar="ID", help="only the cell whose id starts so; repeatable"),
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="SCALE",
        help=(
            "smoke, desk or paper (default: smoke; of a report, the best evidence for every number)"
        ),
    ),
]
PaperScale = Annotated[
    str, typer.Option(metavar="SCALE", help="smoke, desk or paper (default: paper)")
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
FromResults = Annotated[
    Path | None,
    typer.Option(
        help=(
            "folder of records to read (default: REPFL_RESULTS, else ./results); lines always go to"
            " paper_tables/ of this checkout"
        )
    ),
]
Out = Annotated[Path, typer.Option(help="folder of the report")]
Style = Annotated[
    str,
    typer.Option(
        metavar="STYLE",
        help="of LaTeX tables: report (published, ours, verdict) or paper (ours, to be submitted)",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Executor = Annotated[
    str | None,
    typer.Option(help="inline, processes or ray (default: processes for several cells on a CPU)"),
]
Workers = Annotated[
    int | None, typer.Option(help="number of processes (default: one per processor)")
]
Address = Annotated[
    str,
    typer.Option(
        help=(
            "Ray cluster: auto, local or HOST:PORT (default: RAY_ADDRESS, else a cluster of this"
            " machine alone)"
        )
    ),
]
PerGpu = Annotated[
    int | None, typer.Option("--per-gpu", help="cells that share one GPU [default: 1]")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Stack = Annotated[
    int | None,
    typer.Option(
        help="clients computed at once, below torch.vmap (default: 1, or 32 of a tiny model)"
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        help="default (PyTorch's own), fp32 (no TF32), tf32, bf16 (forward passes) or fp64"
    ),
]
Unmeasured = Annotated[
    bool,
    typer.Option("--unmeasured", help="only cells that no measured value came with the code for"),
]
Stale = Annotated[
    bool,
    typer.Option(
        "--stale",
        help="only cells whose value, stored or measured, is of other versions or other data",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="compute finished cells again")]
Shard = Annotated[
    str | None,
    typer.Option(help="only the i-th of n equal parts of the cells, i/n; for job arrays"),
]
TimeLimit = Annotated[float | None, typer.Option(help="seconds after which a cell is given up")]
Checkpoint = Annotated[float, typer.Option(help="seconds between two checkpoints of a cell")]


@dataclass(frozen=True)
class Chosen:
    """Which cells of which grids."""

    paper: Papers = None
    artefact: Artefacts = None
    method: Methods = None
    dataset: Datasets = None
    seed: Seeds = None
    cell: Cells = None
    scale: Scale = None
    grid: Grids = None
    plugin: Plugins = None


@dataclass(frozen=True)
class Launch:
    """Where and how to run them."""

    executor: Executor = None
    workers: Workers = None
    device: Device = "auto"
    per_gpu: PerGpu = None
    address: Address = ""
    stack: Stack = None
    precision: Precision = "default"
    results: Results = None
    fresh: Fresh = False
    time_limit: TimeLimit = None
    checkpoint: Checkpoint = 60.0


def again(plugins: Sequence[str], store: Store) -> str:
    """What must be said once more for a command to find the same methods and the same records."""
    usual = real_path(store.root) == real_path(type(store)(None).root)
    parts = [*(("--plugin", path) for path in plugins)]
    parts += [] if usual else [("--results", str(store.root))]
    return "".join(f" {option} {quote(value)}" for option, value in parts)


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """A command whose parameters `Chosen` and `Launch` reach the user as the options that these
    consist of.
    """
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
    def flat(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    flat.__signature__ = Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat


def pluggable(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `--plugin`, which is loaded before anything else happens."""
    known = signature(command).parameters
    if "plugin" in known:  # it hands them on to processes of its own
        return command
    hints = get_type_hints(command, include_extras=True)

    @wraps(command)
    def loaded(*, plugin: Sequence[str] | None = None, **given: Any) -> Any:
        from repfl.bench.grid import plugins

        plugins.load(plugin or ())
        return command(**given)

    options = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in known.items()
    ]
    options.append(Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins))
    loaded.__signature__ = Signature(options)  # type: ignore[attr-defined]
    loaded.__annotations__ = {option.name: option.annotation for option in options}
    return loaded
