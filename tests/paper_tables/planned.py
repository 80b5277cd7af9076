"""Evidence without runs: the cells that the harness really plans for a paper, with invented but
fixed results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from repfl.algorithms.core.run import Run
from repfl.bench.evidence import cell_evidence as harness
from repfl.bench.evidence.artefact_evidence import ArtefactEvidence
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.grid import files, read
from repfl.bench.grid.planned import Planned, cells_of
from repfl.bench.run.clients import clients_of, make
from repfl.bench.run.task import Options
from repfl.bench.store.contents import Metrics
from repfl.bench.store.record import Record
from repfl.paper_tables.core.claims import sentences
from repfl.paper_tables.core.evidence import Arrays, Evidence, Reduce
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.result import Claim, Result, Table

SHOWN_ROUNDS = 24
"""Curves are cut here, to keep tests fast."""
Fails = Callable[[Planned], bool]


def number(*key: object) -> float:
    """A fixed number in [0, 1) for a key."""
    return int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16) / 16**12


@cache
def planned(paper: str, scale: str) -> tuple[Planned, ...]:
    """Every cell of a paper at a scale, built and validated."""
    grid = read(files()[paper])
    return tuple(
        item
        for name, artefact in grid.file.artefacts.items()
        for item in cells_of(grid, name, artefact, scale)
    )


def played(cell: Cell, rounds: int | None = None) -> Run:
    """A real run of a cell to its end, or of its first rounds."""
    run: Run = make(cell, clients_of(cell), Options())
    run.start()
    for _ in range(rounds or cell.rounds):
        run.step()
    return run


def accuracy(item: Planned) -> float:
    """An invented final accuracy."""
    return 0.6 + 0.3 * number(item.cell.method, item.column) + 0.02 * number(item.cell.id)


def metrics(item: Planned) -> dict[str, Any]:
    """What a record of the cell would summarise."""
    value, points = accuracy(item), {}
    for point in (*item.cell.recipe.evaluation.points, "gossiped"):
        own = value - 0.01 * number(point)
        points[point] = {
            "last": {"mean": own - 0.01, "pooled": own - 0.01, "std": 0.1, "decile": own - 0.2},
            "max": {"mean": own, "pooled": own, "round": 5},
            "best_val": {"mean": own - 0.02, "pooled": own, "round": 4},
        }
    found = {"value": value, "round": 5, "points": points, "parameters": 1000}
    return found | {"floor": {"clients": 0.3, "pooled": 0.3}}


class Invented(harness.Records):
    """Records in which every planned cell is done, unless told otherwise. They are their own store.
    Papers say what their runs note and leave.
    """

    def __init__(self, items: Sequence[Planned], fails: Fails | None) -> None:
        self.items = {item.cell.id: item for item in items}
        super().__init__(cast(Any, self))
        self.failed = {item.cell.id for item in items if fails is not None and fails(item)}

    def record(self, cell: str) -> Record | None:
        item = self.items[cell]
        if cell in self.failed:
            return Record(cell, item.cell.json, "failed", "out of memory")
        made = Metrics.model_validate(metrics(item) | self.summary(item))
        return Record(cell, item.cell.json, "done", "", made)

    def summary(self, item: Planned) -> dict[str, Any]:
        """What a paper's records sum up beyond accuracies."""
        return {}

    def noted(self, item: Planned, round_: int) -> dict[str, float]:
        """What a paper's runs note in a round beyond accuracies."""
        return {}

    def shown(self, item: Planned) -> Iterable[int]:
        """The rounds that are noted."""
        return range(1, min(SHOWN_ROUNDS, item.cell.rounds) + 1)

    def frame(self, record: Record, name: str) -> pd.DataFrame | None:
        """Rising accuracies, and what the paper's runs note; nothing of clients."""
        if name != "rounds.parquet":
            return None
        item, rows = self.items[record.id], []
        shown = self.shown(item)
        points, last = item.cell.recipe.evaluation.points, max(shown)
        for round_ in shown:
            rise = accuracy(item) * (1 - 0.5 * (1 - round_ / last) ** 2)
            noted = {f"{point}/mean": rise for point in points} | self.noted(item, round_)
            rows += [(round_, key, value) for key, value in noted.items()]
        return pd.DataFrame(rows, columns=["round", "name", "value"])

    def diagnostics(self, item: Planned) -> dict[str, np.ndarray]:
        """What a run leaves beside its curves."""
        return {}

    def arrays(self, record: Record, reduce: Reduce) -> Arrays:
        return reduce(self.diagnostics(self.items[record.id]))


class Paper:
    """One paper's artefacts from invented evidence."""

    def __init__(self, name: str, records: type[Invented]) -> None:
        self.name, self.records, self.folder = name, records, files()[name].parent
        self.published = read_published(self.folder / "published").frame
        module = import_module(f"repfl.paper_tables.{self.folder.name}.artefacts")
        self.artefacts: Mapping[str, Callable[[Evidence], Result]] = module.ARTEFACTS
        self._whole: dict[tuple[str, str], Result] = {}
        self.judged: list[tuple[sentences.Sentence, set[tuple[Any, Any]]]] = []
        """The sentences of claims.toml at the paper's scale, and the cells that they are of."""

    def __str__(self) -> str:
        return self.name

    def evidence(self, name: str, scale: str = "smoke", fails: Fails | None = None) -> Any:
        """The evidence of one artefact; some of its cells have failed."""
        items = [item for item in planned(self.name, scale) if item.artefact == name]
        known = harness.CellEvidence(self.records(items, fails), CommittedRuns())
        return ArtefactEvidence(items, known, self.published)

    def make(self, name: str, scale: str = "smoke", fails: Fails | None = None) -> Result:
        """An artefact; without failures it is made once."""
        if fails is not None:
            return self.artefacts[name](self.evidence(name, scale, fails))
        if (name, scale) not in self._whole:
            with pytest.MonkeyPatch.context() as patch:
                if scale == "paper":
                    patch.setattr(sentences, "judge", self.watched(sentences.judge))
                self._whole[name, scale] = self.artefacts[name](self.evidence(name, scale))
        return self._whole[name, scale]

    def watched(self, judge: Callable[..., Claim]) -> Callable[..., Claim]:
        """Note the sentences that are judged, and of which cells."""

        def watch(sentence: Any, runs: pd.DataFrame, *rest: Any, **more: Any) -> Claim:
            cells = set(zip(runs["row"], runs["column"], strict=True))
            self.judged.append((sentence, cells))
            return judge(sentence, runs, *rest, **more)

        return watch

    def table(self, name: str, scale: str = "smoke", fails: Fails | None = None) -> Table:
        return as_table(self.make(name, scale, fails))

    def cell(self, name: str, row: str, column: str, scale: str = "paper") -> Mapping[str, Any]:
        """A cell that a table has to have."""
        found = self.table(name, scale).cell(row, column)
        assert found is not None
        return found

    def all(self, scale: str = "smoke") -> list[Result]:
        """Every artefact of the paper."""
        return [self.make(name, scale) for name in self.artefacts]


def as_table(found: Result) -> Table:
    """An artefact that has to be a table."""
    assert isinstance(found, Table)
    return found
