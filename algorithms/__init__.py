"""What clients and servers compute. Every file directly in this folder is one method."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def load() -> None:
    """Import every method file once, so that the registry is complete."""
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.stem != "__init__":
            import_module(f"algorithms.{file.stem}")
