"""Paths that users write: unknown users and loops of links stay as they are, where pathlib would
raise.
"""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: Path | str) -> Path:
    """A path without its `~`."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


def real_path(path: Path | str) -> Path:
    """An absolute path without `~` and links."""
    return Path(os.path.realpath(expanded(path)))
