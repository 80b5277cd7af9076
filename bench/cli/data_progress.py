"""How a download tells how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

SECONDS = 2.0  # between two plain lines


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int], None]]:
    """A bar with an estimate on a terminal, a line now and then elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def report(name: str, done: int, total: int) -> None:
            task = tasks.setdefault(name, None) or bar.add_task(name)
            tasks[name] = task
            bar.update(task, completed=done, total=total or None)

        yield report


class PlainProgress:
    """Download progress where there is no terminal."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, name: str, done: int, total: int) -> None:
        """A line when some time has passed since the last one."""
        if time.monotonic() - self.last >= SECONDS:
            self.last = time.monotonic()
            typer.echo(f"{name}: {human(done)}{f' of {human(total)}' if total else ''}", err=True)


def human(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
