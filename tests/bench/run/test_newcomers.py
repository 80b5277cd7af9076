"""Cells with validation data and with clients that join late, from recipe to verified record."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.bench.evidence.committed.verify import of_store
from repfl.bench.run import cost
from repfl.bench.run.clients import clients_of
from repfl.bench.store.store import Store
from tests.bench.conftest import RECIPE, Compute, stored, task

LATE = {"share": 0.25, "samples": 8, "epochs": 2}
SPLIT = {**RECIPE["partition"], "val_share": 0.2}
CHANGES: dict[str, Any] = {"clients": 8, "partition": SPLIT, "newcomers": LATE}


def test_everybody_who_was_dealt_samples_is_there_or_joins() -> None:
    whole = clients_of(task(clients=8, partition=SPLIT).cell)
    split = clients_of(task(**CHANGES).cell)
    assert whole.newcomers is None
    assert split.newcomers is not None
    assert (split.data.clients, split.newcomers.clients) == (6, 2)
    assert [len(part) for part in split.newcomers.train] == [8, 8]
    assert split.digest == whole.digest
    tests = [tuple(part.tolist()) for part in (*split.data.test, *split.newcomers.test)]
    assert sorted(tests) == sorted(tuple(part.tolist()) for part in whole.data.test)
    assert split.samples == sum(len(part) for part in split.data.train)
    # their data are not held twice
    assert split.newcomers.images.data_ptr() == split.data.images.data_ptr()  # type: ignore[union-attr]
    there, some = task(clients=8).cell, task(**CHANGES).cell
    assert (there.recipe.residents, some.recipe.residents) == (8, 6)
    all_work, work = (cost.work("fedavg", {}, cell.recipe).samples for cell in (there, some))
    assert work / all_work == pytest.approx(0.8 * 6 / 8)


def test_who_joins_depends_on_the_seed_of_the_cell() -> None:
    fixed = {**CHANGES, "partition": {**SPLIT, "seed": 3}}
    drawn = [clients_of(task("fedavg", seed, **fixed).cell) for seed in range(4)]
    assert len({each.digest for each in drawn}) == 1
    late = {tuple(each.newcomers.test[0].tolist()) for each in drawn if each.newcomers}
    assert len(late) > 1


@pytest.mark.parametrize("method", ["fedavg", "fedrep"])
def test_the_record_has_their_score_and_holds(store: Store, compute: Compute, method: str) -> None:
    cell = task(method, **CHANGES)
    assert compute(cell).status == "done"
    record = stored(store, cell.cell.id)
    points = record.metrics.points
    assert 0 <= points["newcomers"].last["mean"] <= 1
    assert points["newcomers"].max.round == cell.cell.rounds
    assert points["post_agg"].best_val is not None
    assert of_store(store, rerun=1).findings == []
    clients = store.frame(record, "clients.parquet")
    assert clients is not None
    sizes = clients.groupby("point")["client"].nunique()
    assert (sizes["post_agg"], sizes["newcomers"]) == (6, 2)


def test_public_samples_are_seen_without_labels_and_kept_by_no_client() -> None:
    whole = clients_of(task().cell)
    shared = clients_of(task(public={"samples": 20}).cell)
    assert whole.data.public is None
    assert shared.data.public is not None
    assert shared.data.public.shape == (20, 8, 8, 1)
    assert whole.samples - shared.samples == 20
    raw = shared.data.public.double() * shared.data.scale + shared.data.shift
    assert torch.equal(shared.data.public_inputs, raw.permute(0, 3, 1, 2))
    with pytest.raises(ValueError, match=r"public = \{ samples = 500 \} holds some out"):
        _ = whole.data.public_inputs
