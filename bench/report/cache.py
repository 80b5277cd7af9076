"""What a report need not do again: pages are kept under a digest of everything that they show."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repfl.bench.store.store import replace_file

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("algorithms", "bench", "datasets", "paper_tables")
READ = frozenset({".py", ".csv", ".toml", ".json", ".j2", ".css", ".js", ".npz"})
DRAWING = ("matplotlib", "numpy", "pandas", "scipy", "seaborn")
"""Libraries that numbers and pictures are made with."""


def digest(value: Any) -> str:
    """Of anything that JSON can say."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@cache
def code() -> str:
    """Return a digest of every file of ours that numbers or pages are made from, and of the
    libraries they are made with.
    """
    texts = [files(ROOT / folder) for folder in FOLDERS]
    return digest([sys.version, [version(name) for name in DRAWING], texts])


def files(folder: Path) -> list[tuple[str, str]]:
    """The files below a folder that anything is made from, each with a hash of its bytes."""
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in READ and "__pycache__" not in path.parts
    )
    return [
        (str(path.relative_to(folder)), sha256(path.read_bytes()).hexdigest()) for path in found
    ]


def stamp(folder: Path) -> list[list[Any]]:
    """What tells whether a stored record is still the same: its bytes, and size and time of the
    files beside it.
    """
    try:
        record = sha256((folder / "record.json").read_bytes()).hexdigest()
    except OSError:
        return []
    beside = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
    return [[record], *([name, stat.st_size, stat.st_mtime_ns] for name, stat in beside)]


class Cache:
    """Values under a name, each for as long as its digest stays the same."""

    def __init__(self, out: Path) -> None:
        self.out, self.folder = out, out / ".cache"

    def get(self, name: str, key: str) -> Any:
        """What was kept; nothing where the digest is another, or a file that was written then is
        gone.
        """
        try:
            kept = json.loads((self.folder / f"{name}.json").read_bytes())
            whole = kept["key"] == key and all((self.out / f).is_file() for f in kept["files"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return kept["value"] if whole else None

    def put(self, name: str, key: str, value: Any, files: Iterable[str] = ()) -> Any:
        """Keep a value, and hand it back as it will be read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"key": key, "files": list(files), "value": value})
        replace_file(self.folder / f"{name}.json", text.encode())
        return json.loads(text)["value"]
