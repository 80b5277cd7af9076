"""What a table or figure is made from: its planned cells and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from math import nan
from typing import Any

import pandas as pd

from repfl.bench.evidence.committed.committed_run import Line, counts_frame, curves_frame
from repfl.bench.evidence.library import CellEvidence
from repfl.bench.evidence.selection import choices
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.dotted_names import dotted
from repfl.bench.grid.methods import entry
from repfl.bench.grid.planned import Planned
from repfl.bench.grid.recipes import recipe_values
from repfl.bench.store import versions
from repfl.paper_tables.core.evidence import MEASURED, STALE, TRIAL, Arrays, Reduce
from repfl.paper_tables.core.statistics.noise import NO_GROUPS, Noise


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return nested tables as columns; lists become tuples, which tables can group by."""
    flat = dotted(values, prefix)
    return {name: tuple(each) if isinstance(each, list) else each for name, each in flat.items()}


@cache
def _title(dataset: str) -> str:
    """Return the title of a data set; if it is not registered, its name."""
    from repfl.datasets.core.registry import get, names

    return get(dataset).title if dataset in names() else dataset


class PlannedEvidence:
    """The planned cells of one artefact at one scale, with their results."""

    def __init__(
        self,
        planned: Sequence[Planned],
        evidence: CellEvidence,
        published: pd.DataFrame,
        noise: Noise = NO_GROUPS,
        trials: Sequence[Planned] = (),
    ) -> None:
        self._planned, self._evidence, self._trials = (list(planned), evidence, list(trials))
        self.published, self.noise = published, noise
        self.scale = planned[0].scale if planned else ""
        self.seeds = tuple(sorted({item.cell.seed for item in planned}))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Return one row per planned cell, done or not."""
        cells = pd.DataFrame([self._row(item) for item in self._planned])
        # artefacts take many small selections: words as one block of objects are taken ten times as
        # fast as columns of their own
        return cells.astype(
            {
                name: object
                for name, kind in cells.dtypes.items()
                if isinstance(kind, pd.StringDtype)
            }
        ).copy()

    def _row(self, item: Planned) -> dict[str, Any]:
        status, reason, metrics, origin = self._outcome(item)
        line = self._evidence.line(item.cell.id)
        done = status == "done"
        value = metrics.get("value")
        recipe = item.cell.recipe
        return {
            "id": item.cell.id,
            "artefact": item.key,
            "row": item.row,
            "column": item.column,
            "column_label": item.column_label,
            "method": item.cell.method,
            "version": item.cell.version,
            "one_model": entry(item.cell.method).one_model,
            "seed": item.cell.seed,
            "status": status,
            "reason": reason,
            "value": float(value) if done and value is not None else nan,
            "dataset": recipe.dataset,
            "dataset_title": _title(recipe.dataset),
            "source": "record" if line is None else "measured",
            "tier": self._tier(line, origin, item.cell) if done else "",
            "seconds": (origin.get("seconds") or {}).get("processor"),
            "peak_memory": origin.get("peak_memory"),
            **flatten(origin.get("work") or {}, "work."),
            **flatten(recipe.partition.options, "partition."),
            **flatten(item.cell.options, "hp."),
            **flatten(recipe_values(recipe), "recipe."),
            **flatten(metrics.get("floor", {}), "floor."),
            **flatten(metrics.get("traffic", {}), "traffic."),
            "parameters": metrics.get("parameters"),
            "metrics": metrics,
        }

    def _outcome(self, item: Planned) -> tuple[str, str, Mapping[str, Any], Mapping[str, Any]]:
        """Return status, reason, metrics and provenance of a planned cell, or why it has none."""
        cell = item.cell.id
        if (record := self._evidence.record(cell)) is not None:
            return record.status, record.reason, record.metrics, record.provenance
        if item.skip:
            return "skipped", item.skip, {}, {}
        return "missing", self._evidence.why_missing(cell), {}, {}

    def _tier(self, line: Line | None, origin: Mapping[str, Any], cell: Cell) -> str:
        """Return the evidence for a number, and whether it is stale."""
        if line is not None:
            tier, currency = MEASURED, line.currency
        else:
            tier, currency = "", versions.of_record(origin, cell.json)
        return ", ".join(filter(None, (tier, "" if currency.current else STALE)))

    # -- trials and clients ------------------------------------------------------------------------

    def trials(self) -> pd.DataFrame:
        """Return every trial of the searches: row, column, seed, trial, id, status, validation and
        test accuracy, and whether validation chose it.
        """
        rows = []
        for choice in choices(self._trials, self._evidence) if self._trials else ():
            best = choice.best if not choice.open else None
            rows += [
                {
                    "row": choice.row,
                    "column": choice.column_key,
                    "seed": choice.study,
                    "trial": number,
                    "id": trial.ids[0],
                    "status": trial.status,
                    "validation": trial.val,
                    "test": trial.test,
                    "chosen": trial is best,
                }
                for number, trial in enumerate(choice.trials, start=1)
            ]
        return pd.DataFrame(rows, columns=list(TRIAL))

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        """Return each client's counts in the reported round: id, client, correct, total."""
        return counts_frame((cell, self._evidence.counts(cell)) for cell in dict.fromkeys(ids))

    # -- curves and diagnostics --------------------------------------------------------------------

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        """Return curves by name: id, name, round, value. A name that ends in "/" is a prefix."""
        cells = ((cell, self._evidence.curves(cell, names)) for cell in dict.fromkeys(ids))
        return curves_frame(cells)

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        """Return what `reduce` makes of the diagnostics of one cell."""
        return self._evidence.arrays(cell, reduce)
