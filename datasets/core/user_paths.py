"""Paths that users type: unknown users and loops of links are left alone, pathlib would raise."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: Path | str) -> Path:
    """Return a path with `~` replaced."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


def real_path(path: Path | str) -> Path:
    """Return an absolute path without `~` and links."""
    return Path(os.path.realpath(expanded(path)))
