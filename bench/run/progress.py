"""Progress on stderr: a bar with the estimated remaining time on a terminal, plain lines elsewhere,
nothing for short runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from repfl.bench.grid.cell import Cell
from repfl.bench.run.cost import duration
from repfl.bench.run.task import Outcome

QUIET = 2.0
"""Seconds before the first message, and at least between two plain lines; a long run prints
fewer.
"""
MAX_REASON = 160
"""Characters of a reason in a line of progress; the end of a run shows more of it."""


class Progress:
    """Prints the progress of a runner."""

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream or sys.stderr
        self.bar: Any = None
        self.cells: dict[str, Cell] = {}
        self.rounds: dict[str, int] = {}
        self.done = 0
        self.begun = self.printed = time.monotonic()
        self._costs: Mapping[str, float] = {}
        self._all_cost = self._finished_cost = self._resumed_cost = 0.0
        self._expected: float | None = None

    @contextmanager
    def running(
        self,
        cells: Sequence[Cell],
        costs: Mapping[str, float],
        cached: int,
        workers: int,
        in_seconds: bool = True,
    ) -> Iterator[None]:
        """Context manager: report on cells while they are computed. If not `in_seconds`, costs are
        only shares of the whole.
        """
        self.cells, self._costs = {cell.id: cell for cell in cells}, costs
        self._all_cost = sum(costs[cell] for cell in self.cells)
        self.begun = self.printed = time.monotonic()
        self._expected = self._all_cost / max(workers, 1) if in_seconds else None
        if not cells:  # all were refused, each in its own line
            yield
            return
        text = f"{len(cells)} cell{'s' * (len(cells) != 1)} to compute" + (
            f", {cached} are there already" if cached else ""
        )
        workers_text = f"{workers} worker{'s' if workers > 1 else ''}"
        if self._expected is None:
            text += f"; {workers_text}, and no cell has told how long yet"
        else:
            text += f"; about {duration(self._expected)} on {workers_text}"
        with self._terminal():
            self.note(text)
            yield
            took = duration(time.monotonic() - self.begun)
            self.note(f"{self.done} of {len(cells)} cells ended in {took}")

    @contextmanager
    def _terminal(self) -> Iterator[None]:
        """Show a bar if the stream is a terminal."""
        if not getattr(self.stream, "isatty", bool)():
            yield
            return
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[eta]}", markup=False),
        )
        with progress.Progress(*columns, console=Console(file=self.stream), transient=True) as bar:
            self.bar, self._task = bar, bar.add_task("cells", total=1.0, eta="")
            yield
        self.bar = None

    def note(self, text: str) -> None:
        """Print a line; a pipe that has no reader any more, or a full disk, costs no cell."""
        with suppress(OSError):
            if self.bar is not None:
                self.bar.console.print(text, markup=False, highlight=False)
            else:
                print(text, file=self.stream, flush=True)

    def round(self, cell: str, round_: int) -> None:
        """Record that a cell has completed a round; the first call says where it starts."""
        if cell not in self.rounds and cell in self.cells:
            self._resumed_cost += self._cost(cell, round_)
        self.rounds[cell] = round_
        self._show()

    def finish(self, outcome: Outcome) -> None:
        """Record that a cell has ended."""
        if outcome.status == "interrupted":  # its rounds still count
            return
        self.done += outcome.id in self.cells
        self.rounds.pop(outcome.id, None)
        self._finished_cost += self._costs.get(outcome.id, 0.0)
        if outcome.status not in ("done", "cached", "skipped"):
            name = self.cells.get(outcome.id, outcome.id[:12])
            reason = outcome.reason[:MAX_REASON]
            more = " ..." if len(outcome.reason) > MAX_REASON else ""
            self.note(f"{outcome.status}: {name}: {reason}{more}")
        self._show()

    @property
    def share(self) -> float:
        """The share of the work that is done, by estimated cost."""
        running = sum(self._cost(cell, n) for cell, n in self.rounds.items() if cell in self.cells)
        return min(1.0, (self._finished_cost + running) / self._all_cost) if self._all_cost else 1.0

    def _cost(self, cell: str, rounds: int) -> float:
        return self._costs[cell] * rounds / self.cells[cell].rounds

    def remaining(self) -> str:
        """Return the remaining time: from the expected costs at first, then from the time that has
        passed.
        """
        passed, share_left = time.monotonic() - self.begun, 1 - self.share
        advance = self.share - (self._resumed_cost / self._all_cost if self._all_cost else 0.0)
        if advance > 0.02 and passed > 1:
            return duration(passed * share_left / advance)
        return "?" if self._expected is None else duration(self._expected * share_left)

    def _show(self) -> None:
        count, now = f"{self.done}/{len(self.cells)} cells", time.monotonic()
        if self.bar is not None:
            at = [f"{self.cells[c].method} {n}" for c, n in self.rounds.items() if c in self.cells]
            text = f"{count} ({', '.join(at[:3])})" if at else count
            eta = f"{self.remaining()} to go"
            self.bar.update(self._task, completed=self.share, description=text, eta=eta)
        elif now - self.printed >= max(QUIET, (now - self.begun) / 12) and self.done < len(
            self.cells
        ):
            self.printed = now
            self.note(f"{count}, {100 * self.share:.0f} %, {self.remaining()} to go")
