"""`repfl data list | get | import | show`: data sets on this machine, and who would have what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from repfl.bench.cli.options import AsJson, Grids, Plugins
from repfl.bench.cli.printing import print_json, screen, table
from repfl.bench.errors import FINDING, FINE

if TYPE_CHECKING:
    from repfl.datasets.core.cache import Prepared


def list_datasets(
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="recompute the fingerprints; exit code 1 if one does not match"
        ),
    ] = False,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> int:
    """List what is present, whether it is what was published, how large it is, and which papers
    need it.
    """
    from repfl.bench.grid import catalog, plugins
    from repfl.datasets.core.cache import data_root

    plugins.load(plugin or ())
    if verify:
        return _verify()
    entries = catalog.all_dataset_facts()
    if as_json:
        print_json(entries)
        return FINE
    rows = [
        {
            "dataset": entry["name"],
            "edition": entry["edition"] or "-",
            "fingerprint": entry["verified"],
            "samples": f"{sum(entry['splits'].values()):,}",
            "size": _size(entry),
            "needed by": " ".join(entry["needed_by"]) or "-",
        }
        for entry in entries
    ]
    screen().print(table(rows))
    print(
        f"\ndata root {data_root()}; sizes in brackets are downloads: `repfl data get NAME`, or"
        " `repfl data import NAME --from PATH`"
    )
    for entry in entries:
        if not entry["present"] and entry["note"]:
            print(f"{entry['name']}: {entry['note']}")
    return FINE


def _size(entry: Mapping[str, Any]) -> str:
    """Return what a data set takes on this disk, in brackets what its download would."""
    if entry["present"]:
        return decimal(entry["bytes"])
    download = entry["download_bytes"]
    return f"({decimal(download)})" if download else "-"


def _verify() -> int:
    """Recompute the fingerprints of everything that is prepared."""
    from repfl.datasets.core.cache import prepared_path
    from repfl.datasets.core.files import prepare
    from repfl.datasets.core.registry import get, names

    words = {True: "as published", False: "NOT as published", None: "no published fingerprint"}
    troubles = []
    for name in names():
        if not get(name).embedded and not prepared_path(name).exists():
            continue
        checks = prepare.verify(name)
        for check in checks:
            intact = "intact" if check.intact else "DAMAGED"
            print(
                f"{name:15} {check.split:5} {check.fingerprint} {intact}, {words[check.published]}"
            )
        if trouble := prepare.damaged(name, checks):
            troubles.append(trouble)
    for trouble in troubles:
        print(f"finding: {trouble}")
    return FINDING if troubles else FINE


def get(
    chosen: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="data sets to download and prepare")
    ],
    edition: Annotated[
        str | None, typer.Option(help="an edition other than the one the papers use")
    ] = None,
    plugin: Plugins = None,
) -> int:
    """Download, check and prepare data sets."""
    from repfl.bench.grid import plugins
    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.files import prepare

    plugins.load(plugin or ())
    for name in chosen:
        prepare.download(name, edition=edition, progressbar=True)
        _print_sizes(open_dataset(name))
    return FINE


def import_files(
    name: Annotated[str, typer.Argument(help="the data set that the files are of")],
    source: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="PATH",
            help="official archive or folder, .npz, idx, .mat, class folders, a folder of Hugging"
            " Face's save_to_disk, or hf:NAME",
        ),
    ],
    plugin: Plugins = None,
) -> int:
    """Prepare a data set from files you have."""
    from repfl.bench.cli.printing import waiting
    from repfl.bench.grid import plugins
    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.files import prepare

    plugins.load(plugin or ())
    with waiting(f"reading {source}"):
        prepare.import_files(name, source)
    _print_sizes(open_dataset(name))
    return FINE


def _print_sizes(prepared: Prepared) -> None:
    sizes = ", ".join(f"{split} {len(span):,}" for split, span in prepared.splits.items())
    path = prepared.path or "comes with its description"
    print(f"{prepared.description.name} ({prepared.edition}): {sizes}; {path}")


def show_split(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="such as fedobp/cifar10-dir0.1")],
    scale: Annotated[
        str | None, typer.Option(metavar="SCALE", help="default: the largest of the recipe's grid")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="default: the first seed of the scale")
    ] = None,
    out: Annotated[Path, typer.Option(help="folder for the figure and the table")] = Path("report")
    / "data",
    grid: Grids = None,
    plugin: Plugins = None,
) -> int:
    """Show the class-by-client table of a recipe, also as a figure, and write who holds what."""
    from repfl.bench.grid import catalog, plugins
    from repfl.bench.grid.grid import with_named
    from repfl.datasets.core import split_table
    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.files import client_file
    from repfl.datasets.core.partition import partition

    plugins.load(with_named(plugin or (), grid or ()))
    full, resolved, scale, first = catalog.find_recipe(recipe, scale, grid or ())
    chosen = first if seed is None else seed
    prepared = open_dataset(resolved.dataset)
    splits = partition(prepared, resolved, chosen)
    counts = split_table.class_table(splits, prepared.labels, prepared.description.classes)
    print(split_table.text(counts, splits, prepared.labels))
    title = f"{full}, scale {scale}, seed {resolved.partition.seed_in(chosen)}"
    name = f"{full.replace('/', '-')}-{scale}-{chosen}"
    paths = split_table.write(counts, title, out, name)
    client_file.write_clients(splits, paths[0].with_suffix(".json"))
    for path in (*paths, paths[0].with_suffix(".json")):
        print(f"wrote {path}")
    return FINE
