"""Datasets at the command line: what is there, where it comes from, who would hold what.

The functions return plain data or raise DataError; the commands at the end only print.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from repfl.bench.errors import FINDING, INPUT, UserError, unknown
from repfl.datasets.core import prepare
from repfl.datasets.core.cache import Prepared, data_root, how_to_get, open_dataset, prepared_path
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import Dataset, get, names

if TYPE_CHECKING:
    from repfl.datasets.core.partition import ClientSplits
    from repfl.datasets.core.recipe import Recipe

P = ParamSpec("P")
R = TypeVar("R")


# -- what is there ---------------------------------------------------------------------------------


def catalogue(root: Path | str | None = None) -> list[dict[str, Any]]:
    """Every dataset with what is published about it and its state under a data root."""
    needs = needed_by()
    return [describe(get(name), needs.get(name, []), root) for name in names()]


def describe(dataset: Dataset, needs: list[str], root: Path | str | None = None) -> dict[str, Any]:
    """One dataset as plain data."""
    prepared, problem = _state(dataset.name, root)
    known = dataset.fingerprints
    return {
        "name": dataset.name,
        "title": dataset.title,
        "homepage": dataset.homepage,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "classes": list(dataset.classes),
        "shape": list(dataset.shape),
        "splits": (
            {split: len(span) for split, span in prepared.splits.items()}
            if prepared
            else dataset.splits
        ),
        "class_counts": {split: list(counts) for split, counts in (dataset.counts or {}).items()},
        "fingerprints": prepared.fingerprints if prepared else known,
        "editions": [edition.name for edition in dataset.editions],
        "edition": prepared.edition if prepared else None,
        "norms": {name: asdict(norm) for name, norm in dataset.norms.items()},
        "groups": list(dataset.groups),
        "present": prepared is not None,
        "verified": _verified(dataset, prepared),
        "bytes": prepared.path.stat().st_size if prepared and prepared.path else 0,
        "download_bytes": dataset.size,
        "path": str(prepared.path) if prepared and prepared.path else None,
        "needed_by": needs,
        "how": "" if prepared else how_to_get(dataset),
        "note": problem or dataset.manual,
    }


def _state(name: str, root: Path | str | None) -> tuple[Prepared | None, str]:
    """The prepared dataset, or what is wrong with a file that is there but cannot be used."""
    try:
        return open_dataset(name, root), ""
    except DataError as error:
        return None, str(error) if prepared_path(name, root).exists() else ""


def _verified(dataset: Dataset, prepared: Prepared | None) -> str:
    """How far the content is known to be right: `published` and `recorded` are fingerprints taken
    when it was prepared.
    """
    if prepared is None:
        return "absent"
    known = next(
        (edition.fingerprints for edition in dataset.editions if edition.name == prepared.edition),
        None,
    )
    if not known:
        return "recorded"
    return (
        "published"
        if all(prepared.fingerprints[split] == mark for split, mark in known.items())
        else "different"
    )


def needed_by() -> dict[str, list[str]]:
    """Dataset -> papers whose recipes use it at paper scale."""
    from repfl.bench.grid import grid

    needs: dict[str, list[str]] = {}
    for paper, path in grid.files().items():
        try:
            file = grid.read(path)
            used = {file.recipe(recipe, "paper").dataset for recipe in file.file.recipes}
        except UserError:  # the grid's own trouble, told by the commands that run it
            continue
        for name in used:
            needs.setdefault(name, []).append(paper)
    return needs


def verify(chosen: list[str]) -> list[tuple[str, prepare.SplitCheck]]:
    """Recompute fingerprints; without a name, of everything that is prepared."""
    wanted = chosen or [
        name for name in names() if get(name).embedded or prepared_path(name).exists()
    ]
    return [(name, verdict) for name in wanted for verdict in prepare.verify(name)]


# -- who would hold what ---------------------------------------------------------------------------


def find_recipe(name: str, scale: str) -> tuple[str, Recipe, int]:
    """A recipe by `paper/recipe`, or by its name where that is unique; with its full name and first
    seed.
    """
    from repfl.bench.grid import grid

    found = {}
    for paper, path in grid.files().items():
        file = grid.read(path)
        for recipe in file.file.recipes:
            if name in (recipe, f"{paper}/{recipe}"):
                found[f"{paper}/{recipe}"] = (file, recipe)
    if not found:
        known = [
            f"{paper}/{recipe}"
            for paper, path in grid.files().items()
            for recipe in grid.read(path).file.recipes
        ]
        raise unknown("recipe", name, known)
    if len(found) > 1:
        raise UserError(f"recipe {name!r} is in several papers: say {' or '.join(found)}")
    full, (file, recipe) = next(iter(found.items()))
    if scale not in file.file.scales:
        raise unknown("scale", scale, file.file.scales)
    rules = file.file.scales[scale]
    return full, file.recipe(recipe, scale), rules.seeds[0]


def holdings(recipe: Recipe, seed: int) -> tuple[Prepared, ClientSplits]:
    """A recipe's data and who holds what."""
    from repfl.datasets.core.partition import partition

    prepared = open_dataset(recipe.dataset)
    return prepared, partition(prepared, recipe, seed)


# -- commands --------------------------------------------------------------------------------------

app = typer.Typer(help="Datasets: list, get, import, verify, show.", no_args_is_help=True)


def refusing(command: Callable[P, R]) -> Callable[P, R]:
    """What a user can mend ends in one line and exit code 2."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (DataError, UserError) as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(INPUT) from None

    return wrapped


@app.command("list")
@refusing
def list_command(as_json: Annotated[bool, typer.Option("--json", help="as JSON")] = False) -> None:
    """What is present, whether it is what was published, how large it is, and which papers need
    it.
    """
    entries = catalogue()
    if as_json:
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    from repfl.bench.cli.show import screen

    table = Table(
        "dataset",
        "edition",
        "fingerprint",
        "samples",
        "size",
        "needed by",
        box=None,
        pad_edge=False,
    )
    for entry in entries:
        size = (
            human(entry["bytes"])
            if entry["present"]
            else f"({human(entry['download_bytes'])})"
            if entry["download_bytes"]
            else "-"
        )
        samples = f"{sum(entry['splits'].values()):,}"
        table.add_row(
            entry["name"],
            entry["edition"] or "-",
            entry["verified"],
            samples,
            size,
            " ".join(entry["needed_by"]) or "-",
        )
    screen().print(table)
    typer.echo(
        f"\ndata root {data_root()}; sizes in brackets are downloads: `repfl data get NAME`, or"
        " `repfl data import NAME --from PATH`"
    )
    for entry in entries:
        if not entry["present"] and entry["note"]:
            typer.echo(f"{entry['name']}: {entry['note']}")


@app.command("get")
@refusing
def get_command(
    chosen: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="datasets to download and prepare")
    ],
    edition: Annotated[
        str | None, typer.Option(help="an edition other than the one the papers use")
    ] = None,
) -> None:
    """Download, check and prepare datasets."""
    for name in chosen:
        prepare.download(name, edition=edition, progressbar=True)
        _ready(open_dataset(name))


@app.command("import")
@refusing
def import_command(
    name: Annotated[str, typer.Argument(help="the dataset that the files are of")],
    source: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="PATH",
            help="official archive or folder, .npz, idx, .mat, or class folders",
        ),
    ],
) -> None:
    """Prepare a dataset from files you have."""
    prepare.import_files(name, source)
    _ready(open_dataset(name))


def human(size: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _ready(prepared: Prepared) -> None:
    sizes = ", ".join(f"{split} {len(span):,}" for split, span in prepared.splits.items())
    typer.echo(
        f"{prepared.description.name} ({prepared.edition}): {sizes};"
        f" {prepared.path or 'comes with its description'}"
    )


@app.command("verify")
@refusing
def verify_command(
    chosen: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="default: all that are present")
    ] = None,
) -> None:
    """Recompute the fingerprints of prepared datasets; exit code 1 when one does not match."""
    verdicts = verify(chosen or [])
    for name, verdict in verdicts:
        against = {
            True: "as published",
            False: "NOT as published",
            None: "no published fingerprint",
        }[verdict.published]
        typer.echo(
            f"{name:15} {verdict.split:5} {verdict.fingerprint}"
            f" {'intact' if verdict.intact else 'DAMAGED'}, {against}"
        )
    troubles = [
        prepare.damaged(name, [v for n, v in verdicts if n == name])
        for name in dict.fromkeys(name for name, _ in verdicts)
    ]
    for line in filter(None, troubles):
        typer.echo(line, err=True)
    if any(troubles):
        raise typer.Exit(FINDING)


@app.command("show")
@refusing
def show_command(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="such as fedobp/cifar10-dir0.1")],
    scale: Annotated[str, typer.Option(help="smoke, desk or paper")] = "paper",
    seed: Annotated[int | None, typer.Option(help="default: the first seed of the scale")] = None,
    out: Annotated[Path, typer.Option(help="folder for the figure and the table")] = Path("report")
    / "data",
) -> None:
    """The class-by-client table of a recipe, also as a figure."""
    from repfl.bench.cli import data_figure

    full, resolved, first = find_recipe(recipe, scale)
    chosen = first if seed is None else seed
    prepared, shares = holdings(resolved, chosen)
    table = data_figure.class_table(shares, prepared.labels, prepared.description.classes)
    typer.echo(data_figure.text(table, shares, prepared.labels))
    title = f"{full}, scale {scale}, seed {resolved.partition.seed_in(chosen)}"
    for path in data_figure.write(table, title, out, f"{full.replace('/', '-')}-{scale}-{chosen}"):
        typer.echo(f"wrote {path}")
