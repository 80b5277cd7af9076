"""The status of planned cells: done, missing and why, and what the rest will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from repfl.bench.errors import Corrupt, UserError, one_line
from repfl.bench.evidence.committed.committed_runs import CommittedRuns, ids, read
from repfl.bench.grid import grid as grids
from repfl.bench.grid.catalog import why_absent
from repfl.bench.grid.cell import changed_options
from repfl.bench.grid.methods import spec
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.run import memory
from repfl.bench.run.cost import DEVICES, MAX_RECORDS, Speeds, measured
from repfl.bench.store import checkpoint, versions
from repfl.bench.store.locks import holder, is_locked
from repfl.bench.store.record import FINAL, Record
from repfl.bench.store.store import Store

OPEN = ("missing", "failed", "running")
"""Statuses of cells that are still to be computed."""

NOT_COMPUTED = "not computed yet"


@dataclass(frozen=True)
class Status:
    """The status of one cell."""

    status: str
    reason: str = ""
    stale: str = ""
    """Why it may differ from what would be computed today; empty if it is current."""


class Statuses:
    """The status of cells in a store, each looked up once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # most plans have the records that costs are learned from; the cache holds a limited number
        self.record = lru_cache(maxsize=2 * MAX_RECORDS)(store.whole)
        self._statuses: dict[str, Status] = {}

    def of(self, cell: str) -> Status:
        """Return the status of a cell from the store alone, without its plan."""
        if cell not in self._statuses:
            self._statuses[cell] = self._look_up(cell)
        return self._statuses[cell]

    def _look_up(self, cell: str) -> Status:
        try:
            record = self.record(cell)
        except (Corrupt, UserError) as error:
            return Status("missing", one_line(error))
        if record is None or record.status == "failed":
            if is_locked(self.store, cell):
                return Status("running", holder(self.store, cell) or "some runner is at it")
            if (round_ := checkpoint.round_of(self.store, cell)) is not None:
                reason = f"interrupted after round {round_}; `repfl run` continues from there"
                return Status("missing", reason)
        if record is None:
            return Status("missing", NOT_COMPUTED)
        stale = versions.of_record(record.origin, record.cell).reason
        prefix = "failed before: " if record.status == "failed" else ""
        return Status(record.status, prefix + record.reason, stale)

    def planned(self, item: Planned) -> Status:
        """Return the status of a planned cell; if it is missing, with the reason."""
        status = self.of(item.cell.id)
        if status.status != "missing":
            return status
        if item.skip:
            return Status("skipped", item.skip)
        lack = why_absent(item.cell.recipe.dataset)
        return Status("missing", lack) if lack and status.reason == NOT_COMPUTED else status


Lines = Callable[[str, str], CommittedRuns]
"""Reads the committed runs of a paper at a scale."""


def stale(planned: Sequence[Planned], statuses: Statuses, lines_of: Lines = read) -> dict[str, str]:
    """Return the cells whose number, stored or else committed, may differ from what would be
    computed today, with the reason.
    """
    reasons = {}
    for item in planned:
        if (status := statuses.of(item.cell.id)).status in FINAL:
            reasons[item.cell.id] = status.stale
        else:
            lines = lines_of(item.paper, item.scale).cells.get(item.cell.id, ())
            currencies = [line.currency for line in lines]
            current = any(each.current for each in currencies)
            reasons[item.cell.id] = "" if current or not currencies else currencies[0].reason
    return {cell: reason for cell, reason in reasons.items() if reason}


def only_stale(planned: Sequence[Planned], store: Store) -> list[Planned]:
    """Return the cells to recompute, so that every number is current."""
    reasons = stale(planned, Statuses(store), cache(read))
    return [item for item in planned if item.cell.id in reasons]


def overview(
    planned: Sequence[Planned], store: Store, *, only_stale: bool = False
) -> dict[str, Any]:
    """Return the plan as plain data: every cell once per row and column, the cheapest first, and
    totals over distinct cells.
    """
    statuses, lines_of = Statuses(store), cache(read)
    speeds = measured(store, statuses.record)
    stale_reasons = stale(unique(planned), statuses, lines_of)
    planned = [item for item in planned if not only_stale or item.cell.id in stale_reasons]
    cells = unique(planned)
    costs = {item.cell.id: speeds["cpu"].seconds(item.cell) for item in cells}
    statuses_of = {item.cell.id: statuses.planned(item) for item in cells}
    open_cells = [item for item in cells if statuses_of[item.cell.id].status in OPEN]
    committed = {
        item.cell.id
        for item in open_cells
        if item.cell.id in lines_of(item.paper, item.scale).cells
    }
    return {
        "cells": [
            _plan_row(item, statuses_of[item.cell.id], costs[item.cell.id])
            | {"stale": stale_reasons.get(item.cell.id, ""), "committed": item.cell.id in committed}
            for item in sorted(planned, key=lambda item: costs[item.cell.id])
        ],
        "distinct": len(cells),
        "statuses": dict(Counter(status.status for status in statuses_of.values())),
        "stale": len(stale_reasons),
        "reasons": dict(Counter(statuses_of[item.cell.id].reason for item in open_cells)),
        "committed": len(committed),
        "seconds": sum(costs[item.cell.id] for item in open_cells),
        "uncommitted_seconds": sum(
            costs[item.cell.id] for item in open_cells if item.cell.id not in committed
        ),
        "forecast": _forecast(open_cells, speeds),
    }


def _forecast(planned: Sequence[Planned], speeds: Mapping[str, Speeds]) -> dict[str, Any]:
    """Return what cells will cost on a CPU, and on a GPU if their models have run on one."""
    cells = [item.cell for item in planned]
    timed = {kind: [c for c in cells if speeds[kind].has_measured(c.recipe)] for kind in DEVICES}
    costs = {"cpu": speeds["cpu"].cost(cells), "cuda": speeds["cuda"].cost(timed["cuda"])}
    forecasts = {kind: {**vars(costs[kind]), "measured": len(timed[kind])} for kind in DEVICES}
    peaks = memory.peaks_of(speeds["cpu"].records)
    # one cell per method and size stands for its sweeps: building a state may take seconds
    sizes = {
        (c.method, c.recipe.model, c.recipe.dataset, c.recipe.residents, c.recipe.participation): c
        for c in cells
    }
    needs = [memory.needed(cell, "cpu", peaks) for cell in sizes.values()]
    return {"cells": len(cells), **forecasts, "memory": max(needs, default=0.0)}


def _plan_row(item: Planned, status: Status, seconds: float) -> dict[str, Any]:
    return {
        "id": item.cell.id,
        "artefact": item.key,
        "row": item.trial_row,
        "column": item.column,
        "scale": item.scale,
        "method": item.cell.method,
        "hp": dict(item.cell.options),
        "dataset": item.cell.recipe.dataset,
        "seed": item.cell.seed,
        "status": status.status,
        "reason": status.reason,
        "seconds": round(seconds, 2),
        "command": item.command,
    }


def artefact_facts(store: Store, user_grids: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return every artefact with its cells per scale: needed, done here, and committed."""
    committed, statuses = set(ids()), Statuses(store)
    files = grids.with_own(user_grids)
    plans = {s: plan(Selection(list(files), scale=s, files=user_grids)) for s in grids.SCALES}
    facts = []
    for paper, path in files.items():
        for name, artefact in grids.read(path).file.artefacts.items():
            scales = {}
            for scale, planned in plans.items():
                cells = {item.cell.id for item in planned if item.key == f"{paper}/{name}"}
                scales[scale] = {
                    "cells": len(cells),
                    "done": sum(statuses.of(cell).status == "done" for cell in cells),
                    "committed": sum((paper, scale, cell) in committed for cell in cells),
                }
            facts.append(
                {
                    "paper": paper,
                    "name": name,
                    "kind": artefact.kind,
                    "title": artefact.title,
                    "scales": scales,
                }
            )
    return facts


def run_facts(store: Store) -> list[dict[str, Any]]:
    """Return every run in a results folder, the latest first; an interrupted one, and a record that
    cannot be read, by its id and reason.
    """
    statuses, facts = Statuses(store), []
    for cell in {*store.ids(), *store.begun()}:
        if (status := statuses.of(cell)).reason == NOT_COMPUTED:  # an abandoned lock
            continue
        row = {"run": cell, "status": status.status, "note": status.stale or status.reason}
        try:
            record = statuses.record(cell)
        except (Corrupt, UserError):
            record = None
        facts.append(row | (_record_facts(record) if record else {}))
    return sorted(facts, key=lambda row: str(row.get("finished", "")), reverse=True)


def _record_facts(record: Record) -> dict[str, Any]:
    recipe, method = record.recipe, record.cell["method"]
    return {
        "method": spec(method, changed_options(method, record.cell["hp"])),
        "dataset": recipe.dataset,
        "model": recipe.model,
        "clients": recipe.clients,
        "rounds": recipe.training.rounds,
        "seed": record.cell["seed"],
        "accuracy": record.value,
        "finished": record.origin.finished,
    }
