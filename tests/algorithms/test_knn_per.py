"""knn-per: a plain transcription of what is scored; the global model is FedAvg's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.evaluate import Predictor
from tests.algorithms import plain, toys

SIZES = (25, 4, 0, 40)
HP = {"neighbours": 6, "weight": 0.6, "scale": 0.01}


def predicted(run: Run) -> list[Tensor]:
    """The logits of all clients on their test samples, as scoring has them."""
    fed, logits = run.fed, [[] for _ in range(run.fed.N)]  # type: ignore[var-annotated]
    with fed.as_active(range(fed.N)):
        models = run.scored_models()
        assert isinstance(models, Predictor)
        fed.scores.count_correct(models, "test", fed.active_ids, logits)
    return [torch.cat(rows) for rows in logits]


def by_hand(run: Run, client: int, x: Tensor) -> list[float]:
    """One sample's probabilities: sort all distances, take the first ones, count labels."""
    fed, p = run.fed, plain.named(run.fed, run.state["theta"])
    z = plain.features(p, x[None], train=False)[0]
    model = plain.logits(p, x[None], train=False)[0].softmax(0).tolist()
    index = fed.data.train[client]
    if not len(index):
        return model
    stored = plain.features(p, fed.data.inputs(index), train=False)
    pairs = [
        (float(((z - other) ** 2).sum()), int(label))
        for other, label in zip(stored, fed.data.labels[index], strict=True)
    ]
    votes = [0.0] * fed.classes
    for square, label in sorted(pairs)[: HP["neighbours"]]:  # type: ignore[misc]
        votes[label] += math.exp(-square / (len(z) * HP["scale"]))
    return [
        HP["weight"] * vote / sum(votes) + (1 - HP["weight"]) * own
        for vote, own in zip(votes, model, strict=True)
    ]


@pytest.mark.parametrize("stack", [1, 4])
def test_knn_per_follows_its_plain_transcription(stack: int) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "buffers": "global", "stack": stack}
    run = toys.run("knn-per", HP, sizes=SIZES, dtype=torch.float64, **how)
    changed = 0
    for client, logits in enumerate(predicted(run)):
        samples = run.fed.data.inputs(run.fed.data.test[client])
        rows = [by_hand(run, client, x) for x in samples]
        expected = torch.tensor(rows, dtype=torch.float64)
        assert plain.apart(expected, logits.exp()) < 1e-9
        model = plain.logits(plain.named(run.fed, run.state["theta"]), samples, train=False)
        changed += int((model.argmax(1) != logits.argmax(1)).sum())
    assert changed


def test_the_global_model_is_fedavgs() -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "participation": 0.5}
    assert torch.equal(
        toys.run("knn-per", **how).state["theta"], toys.run("fedavg", **how).state["theta"]
    )


def test_clients_without_any_samples_are_scored_by_the_model() -> None:
    run = toys.run("knn-per", HP, sizes=SIZES, dtype=torch.float64)
    logits: list[list[Tensor]] = [[]]
    with run.fed.as_active([2]):
        run.fed.scores.count_correct(run.scored_models(), "test", [2], logits)
    model = plain.named(run.fed, run.state["theta"])
    expected = plain.logits(model, run.fed.data.inputs(run.fed.data.test[2])).log_softmax(1)
    assert plain.apart(expected, torch.cat(logits[0])) < 1e-9
