"""What a table or figure is made from: its planned cells and their results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pandas as pd

from repfl.bench.evidence import runs
from repfl.bench.evidence.cell_evidence import CellEvidence
from repfl.bench.evidence.committed.committed_run import counts_frame, curves_frame
from repfl.bench.evidence.selection import Choice, choices, chosen_options
from repfl.bench.grid.planned import Planned
from repfl.paper_tables.core.evidence import TRIAL, Arrays, Reduce
from repfl.paper_tables.core.statistics.noise import Noise


class ArtefactEvidence:
    """The planned cells of one artefact at one scale, with their results."""

    def __init__(
        self,
        planned: Sequence[Planned],
        evidence: CellEvidence,
        published: pd.DataFrame,
        noise: Noise | None = None,
        trials: Sequence[Planned] = (),
    ) -> None:
        self._planned, self._evidence, self._trials = (list(planned), evidence, list(trials))
        self.published, self.noise = published, noise or {}
        self.scale = planned[0].scale if planned else ""
        self.seeds = tuple(sorted({item.cell.seed for item in planned}))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Return the rows of `runs` of the planned cells, with their places in the artefact, and
        the options that validation chose.
        """
        chosen = chosen_options(self._choices)
        places = (
            {
                "artefact": item.key,
                "row": item.row,
                "column": item.column,
                "column_label": item.column_label,
                "chosen": chosen.get(item.cell.id, {}),
                "guest": item.guest,
            }
            for item in self._planned
        )
        rows = (runs.run(item, self._evidence) for item in self._planned)
        return runs.frame([place | row for place, row in zip(places, rows, strict=True)])

    # -- trials and clients ------------------------------------------------------------------------

    @cached_property
    def _choices(self) -> list[Choice]:
        return choices(self._trials, self._evidence) if self._trials else []

    def trials(self) -> pd.DataFrame:
        """Return every trial of the searches: row, column, seed, trial, id, status, validation and
        test accuracy, whether validation chose it, and the options in which trials differ.
        """
        rows = []
        for choice in self._choices:
            best = choice.best if not choice.open else None
            tried = choice.tried
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
                    "options": {name: trial.options.get(name) for name in tried},
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
