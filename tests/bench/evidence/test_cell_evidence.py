"""Evidence: every planned cell, done or not, with what is known about it; measured values where
there is no record.
"""

from __future__ import annotations

import math

import pandas as pd
import pytest

from repfl.algorithms import core
from repfl.bench.evidence.artefact_evidence import ArtefactEvidence
from repfl.bench.evidence.cell_evidence import CellEvidence, Records
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid.planned import Planned
from repfl.bench.run.task import Task
from repfl.bench.store.store import Store
from repfl.paper_tables.core.evidence import tier_of
from tests.bench.conftest import Compute, Planning


def evidence(items: list[Planned], store: Store) -> ArtefactEvidence:
    cells = CellEvidence(Records(store), CommittedRuns())
    return ArtefactEvidence(items, cells, pd.DataFrame())


def test_every_planned_cell_is_there(planned: Planning, store: Store, compute: Compute) -> None:
    items = planned(artefact="table1")
    compute(Task(items[0].cell))
    found = evidence(items, store)
    cells = found.cells
    assert len(cells) == 8
    assert list(cells["status"]) == ["done"] + ["missing"] * 7
    assert cells["reason"][1] == "not computed yet"
    first = cells.iloc[0]
    assert 0 <= first["accuracy"] <= 1
    assert math.isnan(cells["accuracy"][1])
    names = ["row", "column", "column_label", "seed"]
    assert list(first[names]) == ["Local", "two", "two clients", 0]
    assert first["partition.alpha"] == 0.5
    assert first["recipe.training.rounds"] == 2
    assert first["recipe.evaluation.points"] == ("pre_agg", "post_agg")
    assert 0 <= first["floor.clients"] <= 1
    assert first["traffic.up_values"] == 0
    assert first["parameters"] == 2746
    assert first["metrics"].round == 2
    assert (found.scale, found.seeds) == ("smoke", (0, 1))
    ids = [item.cell.id for item in items]
    # only the named curves are read
    curves = found.rounds(ids, "post_agg/mean", "traffic/")
    assert set(curves["id"]) == {ids[0]}
    traffic = {f"traffic/{d}_{what}" for d in ("up", "down") for what in ("values", "codes")}
    assert set(curves["name"]) == {"post_agg/mean", *traffic}
    assert list(curves["round"][:2]) == [1, 2]
    assert found.arrays(ids[0], dict) == {}
    for asked in (([],), (ids, "traffic"), (ids[1:], "post_agg/mean")):
        nothing = found.rounds(*asked)
        assert nothing.empty
        assert list(nothing.columns) == ["id", "name", "round", "value"]


def test_a_number_of_an_earlier_version_is_marked(
    planned: Planning, store: Store, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = planned(artefact="table1")
    compute(Task(items[0].cell))
    assert tier_of(evidence(items, store).cells) == ""
    monkeypatch.setattr(core, "ENGINE", core.ENGINE + 1)
    cells = evidence(items, store).cells
    assert list(cells["tier"]) == ["stale"] + [""] * 7
    assert tier_of(cells) == "stale"
