"""Where planned cells stand: done, missing and why, what the rest will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bench.cells.plan import Planned, unique
from bench.errors import Corrupt, UserError, one_line
from bench.records.locks import held, holder
from bench.records.provenance import sources
from bench.records.store import Store
from bench.running.cost import forecast, measured


@dataclass(frozen=True)
class Status:
    """One cell's standing."""

    status: str
    reason: str = ""
    stale: bool = False
    """Made by sources other than today's."""


class Statuses:
    """The standing of cells in a store, each looked up once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._found: dict[str, Status] = {}

    def of(self, cell: str) -> Status:
        """What the store says about a cell; without a look at the planned cell itself."""
        if cell not in self._found:
            self._found[cell] = self._look(cell)
        return self._found[cell]

    def _look(self, cell: str) -> Status:
        try:
            record = self.store.get(cell)
        except (Corrupt, UserError) as error:
            return Status("missing", one_line(error))
        if record is None:
            if held(self.store, cell):
                return Status("running", holder(self.store, cell) or "some runner is at it")
            return Status("missing", "not computed yet")
        return Status(record.status, record.reason, _stale(record.cell["method"], record.provenance))

    def planned(self, item: Planned) -> Status:
        """The standing of a planned cell: what is missing says why."""
        found = self.of(item.cell.id)
        if found.status != "missing":
            return found
        if item.skip:
            return Status("skipped", item.skip)
        absent = data_absent(item.cell.recipe["dataset"])
        return Status("missing", absent) if absent and found.reason == "not computed yet" else found


def _stale(method: str, origin: Any) -> bool:
    """Whether a record's method or engine has changed since; unknown methods count as changed."""
    try:
        return bool(origin.get("sources", {}) != sources(method))
    except KeyError:
        return True


@lru_cache(maxsize=64)
def data_absent(dataset: str) -> str:
    """Why a dataset cannot be opened; empty when it can."""
    from datasets.core.errors import DataError
    from datasets.core.store import open_dataset

    try:
        open_dataset(dataset)
    except DataError as error:
        return one_line(error)
    return ""


def overview(planned: Sequence[Planned], store: Store) -> dict[str, Any]:
    """The plan as plain data: every cell once per place, and totals over distinct cells."""
    statuses, cells = Statuses(store), unique(planned)
    speeds = measured(store)
    costs = {item.cell.id: speeds["cpu"].seconds(item.cell) for item in cells}
    standing = {item.cell.id: statuses.planned(item) for item in cells}
    open_cells = [item for item in cells if standing[item.cell.id].status in ("missing", "failed", "running")]
    return {
        "cells": [_line(item, standing[item.cell.id], costs[item.cell.id]) for item in planned],
        "distinct": len(cells),
        "statuses": dict(Counter(status.status for status in standing.values())),
        "stale": sum(status.stale for status in standing.values()),
        "reasons": dict(Counter(standing[item.cell.id].reason for item in open_cells)),
        "seconds": sum(costs[item.cell.id] for item in open_cells),
        "forecast": forecast(open_cells, speeds),
    }


def _line(item: Planned, status: Status, seconds: float) -> dict[str, Any]:
    return {
        "id": item.cell.id,
        "artefact": item.key,
        "row": item.row,
        "column": item.column,
        "scale": item.scale,
        "method": item.cell.method,
        "hp": dict(item.cell.hp),
        "dataset": item.cell.recipe["dataset"],
        "seed": item.cell.seed,
        "status": status.status,
        "reason": status.reason,
        "seconds": round(seconds, 2),
        "command": item.command,
    }
