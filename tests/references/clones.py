"""Files of published code, at named commits, out of clones that lie outside this repository."""

from __future__ import annotations

import subprocess
from pathlib import Path


def place(clones: Path, repository: str) -> Path:
    """Where the clone of `owner/name` lies."""
    return clones / repository.replace("/", "+")


def extract(clone: Path, commit: str, into: Path, *paths: str) -> Path:
    """Put files and folders of a commit into a folder."""
    git = [
        "git",
        "-c",
        "safe.directory=*",
        "-C",
        str(clone.resolve()),
        "archive",
        commit,
        "--",
        *paths,
    ]
    archive = subprocess.run(git, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(into)], input=archive, check=True)
    return into
