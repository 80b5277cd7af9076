"""The clients' models of a run: kept beside the record, and got back as ordinary modules."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

import repfl
from repfl.bench.errors import UserError
from repfl.bench.run.task import Task
from repfl.bench.store.store import Store
from tests.bench.conftest import RECIPE, Compute, stored, task

VALIDATED = {"partition": {**RECIPE["partition"], "val_share": 0.3}}


def accuracies(store: Store, wanted: Task) -> list[tuple[int, int]]:
    """Return the images that each client's module gets right, and how many there are."""
    found = []
    for client in range(wanted.cell.recipe.clients):
        module = repfl.client_model(wanted.cell.id[:12], client, store.root)
        images, labels = repfl.client_data(wanted.cell.id, client, results=store.root)
        found.append((int((module(images).argmax(1) == labels).sum()), len(labels)))
    return found


def test_the_best_round_is_not_looked_for_where_models_that_are_kept_have_no_score(
    compute: Compute,
) -> None:
    before = {"points": ["pre_agg"], "point": "pre_agg"}
    refused = compute(task("fedper", evaluation=before), keep_models="best")
    assert refused.status == "refused"
    assert "add post_agg to evaluation.points" in refused.reason


def recorded(store: Store, wanted: Task, round_: int) -> list[tuple[int, int]]:
    record = stored(store, wanted.cell.id)
    rows = store.frame(record, "clients.parquet")
    assert rows is not None
    rows = rows[(rows["point"] == "post_agg") & (rows["round"] == round_)]
    return list(zip(rows["correct"], rows["total"], strict=True))


@pytest.mark.parametrize(
    ("method", "changes", "keep"),
    [
        ("fedper", {}, "last"),
        ("fedavg-ft", {"model": "tiny-bn"}, "best"),
        ("ditto", VALIDATED, "best"),
    ],
)
def test_a_clients_module_is_as_accurate_as_its_record_says(
    store: Store, compute: Compute, method: str, changes: dict[str, Any], keep: str
) -> None:
    wanted, turn = task(method, clients=3, training={"rounds": 4}, **changes), count()
    # interrupted and gone on with, wherever the best round lies
    while compute(wanted, keep_models=keep, stop=lambda: next(turn) % 2 > 0).status != "done":
        pass
    record = stored(store, wanted.cell.id)
    scores = record.metrics.points["post_agg"]
    best = scores.best_val if "partition" in changes else scores.max
    round_ = 4 if keep == "last" else best.round
    assert accuracies(store, wanted) == recorded(store, wanted, round_)
    store.verify(record)
    assert list(store.running.iterdir()) == []


def test_a_run_from_python_needs_no_id_and_what_clients_share_is_stored_once(
    tmp_path: Path,
) -> None:
    small = repfl.recipe("fedpurin/cifar10-dir0.1", clients=3, training={"rounds": 1})
    found = repfl.run("fedper", small, keep_models="last", results=tmp_path)
    images, labels = repfl.client_data(found, 1)
    right = repfl.client_model(found, 1)(images).argmax(1) == labels
    assert (int(right.sum()), len(labels)) == tuple(found.clients.loc[1, ["correct", "total"]])
    models = Store(tmp_path).models(found.record)
    own = {name.partition("/")[2] for name in models if name.startswith("client/")}
    layers = {name.rpartition(".")[0] for name in own}
    assert layers == {"fc2", "bn1", "bn2"}  # the head, and statistics
    assert {"all/conv1.weight", "all/bn1.weight"} <= set(models)


def test_models_are_asked_for_later_as_well(store: Store, compute: Compute) -> None:
    wanted = task()
    compute(wanted)
    with pytest.raises(UserError, match="--keep-models last"):
        repfl.client_model(wanted.cell.id, 0, store.root)
    assert compute(wanted, keep_models="last").status == "done"
    assert compute(wanted, keep_models="last").status == "cached"
    assert compute(wanted).status == "cached"
    assert repfl.client_model(wanted.cell.id, 1, store.root)
    assert compute(task("apfl", hp={"mode": "flbench"}), keep_models="last").status == "refused"
