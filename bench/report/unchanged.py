"""Whether a report would be written as it stands: pages are functions of what they are made from.

The digest covers everything that a report reads: this code with its papers, the request, plug-ins
and grids, the records, the prepared data, the libraries and the commit. Files count by their path,
size and time of change.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.metadata import distributions, entry_points
from pathlib import Path
from typing import Any, NamedTuple

from repfl.bench.grid.plugins import GROUP
from repfl.bench.store import provenance
from repfl.bench.store.store import Store
from repfl.datasets.core.cache import data_root

NAME = ".inputs.json"
"""The file in a report's folder that holds the digests."""
SOURCES = ("algorithms", "bench", "datasets", "paper_tables", "repfl")


class Ending(NamedTuple):
    """How the report ended that stands in the folder."""

    runs: int
    code: int


def digest(request: Any, store: Store, files: Sequence[Path] = ()) -> str:
    """Return the digest of everything that a report is made from. `files` are plug-ins and grids;
    a plug-in may import what lies beside it.
    """
    root, beside = provenance.ROOT, {file.parent for file in files if file.suffix == ".py"}
    trees = [*(root / name for name in SOURCES), data_root() / "prepared", store.root, *files]
    trees += sorted(path for folder in beside for path in folder.glob("*") if path.is_file())
    lines = [
        repr(request),
        json.dumps(provenance.commit(), sort_keys=True),
        sys.version,
        *sorted(f"{each.name} {each.version}" for each in distributions()),
        *_states(trees),
    ]
    return sha256("\n".join(lines).encode()).hexdigest()


def ending(out: Path, inputs: str) -> Ending | None:
    """Return how the report in a folder ended, if it is of these inputs and all its files are as
    they were written; None otherwise, and where installed packages bring plug-ins, whose files
    are not known before they are loaded.
    """
    if entry_points(group=GROUP):
        return None
    try:
        values = json.loads((out / NAME).read_text("utf-8"))
        same = values["inputs"] == inputs and values["outputs"] == _outputs(out)
        return Ending(int(values["runs"]), int(values["code"])) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(out: Path, inputs: str, how: Ending) -> None:
    """Write down what the report in a folder was made from."""
    values = {"inputs": inputs, "outputs": _outputs(out), **how._asdict()}
    (out / NAME).write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def _outputs(out: Path) -> str:
    return sha256("\n".join(_states([out])).encode()).hexdigest()


def _states(trees: Iterable[Path]) -> Iterator[str]:
    """Yield a line for every file below the trees."""
    for tree in trees:
        for path in [tree] if tree.is_file() else sorted(_files(tree)):
            if path.name != NAME:
                stat = path.stat()
                yield f"{path} {stat.st_size} {stat.st_mtime_ns}"


def _files(tree: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name not in ("__pycache__", ".running")]
        yield from (Path(folder, name) for name in names)
