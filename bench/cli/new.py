"""`repfl new`: a working start for something of one's own, with its test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repfl.bench.errors import UserError, no_name, unknown
from repfl.bench.grid.schema import NAME
from repfl.datasets.core.errors import hyphened

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
RUN = {
    "method": "repfl reproduce --artefact fedpurin/table1 --method {name} --plugin {file}.py",
    "dataset": "repfl info {name} --plugin {file}.py",
    "model": "repfl info {name} --plugin {file}.py",
    "partition": "repfl info {name} --plugin {file}.py",
    "grid": "repfl reproduce --grid {file}.toml",
    "paper": "repfl reproduce --plugin {file} --paper {name} --scale paper",
}
"""The command that tries it out, by kind."""


def new(
    kind: Annotated[str, typer.Argument(help="method, dataset, model, partition, grid or paper")],
    name: Annotated[str, typer.Argument(help="letters a-z, digits and hyphens")],
) -> int:
    """Write a working start into this folder, with its test; CONTRIBUTING.md goes on from there."""
    if kind not in RUN:
        raise unknown("kind", kind, RUN)
    name = hyphened(name)
    if not NAME.fullmatch(name) or not name[0].isalpha():
        raise no_name(kind, name, "repfl new", f"my-{kind}")
    _refuse_taken(kind, name)
    for path in write(kind, name, Path()):
        print(f"wrote {path}")
    file = name.replace("-", "_")
    print(f"\ntry it:  {RUN[kind].format(name=name, file=file)}\n         pytest test_{file}.py")
    return 0


def _refuse_taken(kind: str, name: str) -> None:
    """Raise an error if something of this kind has the name."""
    from repfl.bench.grid import grid, plugins

    plugins.load()
    taken = grid.files() if kind in ("paper", "grid") else plugins.registries()[kind]
    if name in taken:
        raise UserError(f"{kind} {name!r} is there already; take another name")


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of a kind under its new name; overwrite none."""
    source = TEMPLATES / kind
    planned = {
        folder / renamed(str(path.relative_to(source)), kind, name): path
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in planned:
        if path.exists():
            raise UserError(f"{path} is there already; take another name, or another folder")
    for path, template in planned.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(renamed(template.read_text("utf-8"), kind, name), encoding="utf-8")
    return list(planned)


def renamed(text: str, kind: str, name: str) -> str:
    """Return a template's text with the new name in all its spellings."""
    words = name.split("-")
    spellings = {
        f"my-{kind}": name,
        f"my_{kind}": "_".join(words),
        f"My{kind.capitalize()}": "".join(word.capitalize() for word in words),
        f"My {kind}": " ".join(words).capitalize(),
        f"my {kind}": " ".join(words),
    }
    for old, new in spellings.items():
        text = text.replace(old, new)
    return text
