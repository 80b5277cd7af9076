"""Limiting cases: settings in which one method is another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys

HALF = {"participation": 0.5, "model": "tiny-bn"}
HARD = {"momentum": 0.9, "weight_decay": 0.01}
EVERYTHING = {"tau": 1.0, "cutoff": "off"}
LIMITS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("apfl", {"alpha": 1.0, "alpha_epochs": 0}, "local", HALF | HARD),
    ("fedprox", {"mu": 0.0}, "fedavg", HALF | HARD),
    ("ifca", {"clusters": 1}, "fedavg", HALF),
    ("fedala+dropout", {"dropout_share": 0.0}, "fedala", HALF),
    ("fedpurin", EVERYTHING, "fedbn", {"model": "tiny-bn", "sizes": toys.EQUAL}),
]


@pytest.mark.parametrize(("method", "hp", "other", "how"), LIMITS)
def test_scored_models_are_those_of(
    method: str, hp: dict[str, Any], other: str, how: dict[str, Any]
) -> None:
    one, two = (toys.run(m, o, **how, dtype=torch.float64) for m, o in ((method, hp), (other, {})))
    assert plain.apart(toys.everybody(two), toys.everybody(one)) < 1e-12


@pytest.mark.parametrize(
    ("method", "hp"), [("fedavg-ft", {"epochs": 2}), ("knn-per", {}), ("fedrod", {"gamma": 0.0})]
)
def test_what_clients_have_besides_leaves_the_global_model_fedavgs(
    method: str, hp: dict[str, Any]
) -> None:
    how = HALF | {"dtype": torch.float64}
    one, two = (toys.run(m, o, **how).state["theta"] for m, o in ((method, hp), ("fedavg", {})))
    assert plain.apart(two, one) < 1e-12


@pytest.mark.parametrize("method", ["fedcac", "fedpurin"])
def test_everything_critical_is_local_training_after_beta(method: str) -> None:
    run = toys.run(method, EVERYTHING | {"beta": 1}, model="tiny-bn", sizes=toys.EQUAL)
    assert torch.equal(run.state["w"], run.fed.trained)
    assert toys.traffic(run, "down_values")[1:] == [0.0, 0.0]


@pytest.mark.parametrize("start", ["common", "own"])
def test_every_head_of_fedbabu_stays_at_the_one_initial_head(start: str) -> None:
    run = toys.run("fedbabu", {"epochs": 0}, start=start, participation=0.5, **HARD)
    head = run.fed.params.head
    assert torch.equal(toys.everybody(run)[:, head], run.fed.new_model()[head].expand(6, -1))


def test_knn_per_scores_clients_without_samples_by_the_model() -> None:
    run = toys.run("knn-per", {"neighbours": 6}, sizes=(25, 4, 0, 40), dtype=torch.float64)
    logits: list[list[Tensor]] = [[]]
    with run.fed.as_active([2]):
        run.fed.scores.count_correct(run.scored_models(), "test", [2], logits)
    model = plain.named(run.fed, run.state["theta"])
    expected = plain.logits(model, run.fed.data.inputs(run.fed.data.test[2])).log_softmax(1)
    assert plain.apart(expected, torch.cat(logits[0])) < 1e-9


@pytest.mark.parametrize(
    ("hp", "expected"), [({"threshold": 0.0, "passes": 17}, 17), ({"threshold": 1e9}, 11)]
)
def test_the_first_search_of_fedala_takes_eleven_passes_at_least_and_its_limit_at_most(
    hp: dict[str, float], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    visit = Federation.for_each_batch
    run = toys.run("fedala", hp, rounds=1, evaluation={"every": 0}, stack=6)

    def counted(*args: Any, **how: Any) -> Any:
        passes.append(1)
        return visit(*args, **how)

    monkeypatch.setattr(Federation, "for_each_batch", counted)
    toys.everybody(run)
    assert len(passes) == expected
