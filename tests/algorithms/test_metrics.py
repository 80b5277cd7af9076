"""Metrics beside accuracy: values, averages over clients, and no cost unless requested."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from repfl.algorithms.core.scoring import Scores
from repfl.algorithms.engine import evaluate
from repfl.algorithms.engine.evaluate import Models
from repfl.algorithms.engine.metrics import METRICS, MetricError, register
from repfl.bench.errors import UserError
from tests.algorithms import toys
from tests.bench.conftest import recipe

NAMES = ("auc", "balanced-accuracy", "calibration-error", "loss", "macro-f1")


@pytest.fixture
def predicted() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels of a client that lacks one of four classes."""
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 3, 40))
    logits = torch.from_numpy(rng.standard_normal((40, 4)))
    logits[torch.arange(40), labels] += 1
    return logits, labels


@pytest.mark.parametrize("clients", [1, 7, 10, 19, 30])
def test_a_summary_is_numpys_of_clients_that_have_samples(clients: int) -> None:
    rng = np.random.default_rng(clients)
    total = rng.integers(5, 40, clients)
    correct = (total * rng.random(clients)).astype(int)
    shares = correct / total
    empty = np.zeros(3, dtype=int)  # further clients, without samples
    score = evaluate.Score(
        torch.arange(clients + 3),
        torch.from_numpy(np.concatenate([empty, correct])),
        torch.from_numpy(np.concatenate([empty, total])),
    )
    lowest = np.sort(shares)[: max(1, clients // 10)]
    expected = {
        "mean": shares.mean(),
        "pooled": correct.sum() / total.sum(),
        "std": shares.std(ddof=1) if clients > 1 else 0.0,
        "decile": lowest.mean(),
    }
    assert evaluate.summary(score) == pytest.approx(expected, rel=1e-12)


def test_values_are_scikit_learns(predicted: tuple[torch.Tensor, torch.Tensor]) -> None:
    logits, labels = predicted
    best, shares = logits.argmax(1), logits.double().softmax(1)
    recalls = sk.recall_score(labels, best, labels=[0, 1, 2], average="macro")
    expected = {
        "balanced-accuracy": recalls,
        "macro-f1": sk.f1_score(labels, best, average="macro"),
        "auc": sum(sk.roc_auc_score(labels == c, shares[:, c]) for c in range(3)) / 3,
        "loss": sk.log_loss(labels, shares, labels=range(4)),
    }
    for name, value in expected.items():
        assert METRICS[name].of(logits, labels, 0) == pytest.approx(value)


def test_calibration_error_is_the_gap_of_every_bin() -> None:
    """Confidences 0.8 (two of three right) and 0.55 (wrong), in bins of their own."""
    share = torch.tensor([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.45, 0.55]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 0])
    value = METRICS["calibration-error"].of(share.log(), labels, 0)
    assert value == pytest.approx((abs(2 - 3 * 0.8) + 0.55) / 4)


def test_a_client_of_one_class_has_no_auc_and_is_left_out() -> None:
    assert isnan(METRICS["auc"].of(torch.eye(3), torch.zeros(3, dtype=torch.int64), 0))
    values, samples = torch.tensor([0.5, torch.nan, 1.0]), torch.tensor([10, 10, 30])
    assert METRICS["auc"].averaged(values, samples) == pytest.approx(0.75)
    assert METRICS["loss"].averaged(values, samples) == pytest.approx((5 + 30) / 40)


@pytest.mark.parametrize(("method", "stack"), [("fedavg", 1), ("fedavg-ft", 6), ("apfl", 6)])
def test_metrics_are_curves_and_change_nothing_else(method: str, stack: int) -> None:
    plain = toys.run(method, stack=stack)
    run = toys.run(method, stack=stack, evaluation={"metrics": NAMES})
    known = {name for _, name, _ in plain.rows}
    curves = {(name, value) for r, name, value in run.rows if r == 3 and name not in known}
    told = {f"{point}/{name}" for point in ("pre_agg", "post_agg") for name in NAMES}
    assert {name for name, _ in curves} == told
    last = evaluate.summary(run.fed.scores.by_point["post_agg"])
    assert {(f"post_agg/{name}", last[name]) for name in NAMES} <= curves
    kept = [row for row in run.rows if row[1] in known and not row[1].startswith("time/")]
    assert kept == [row for row in plain.rows if not row[1].startswith("time/")]


def test_a_metric_of_ones_own_sees_each_client() -> None:
    seen = []

    def spy(logits: torch.Tensor, labels: torch.Tensor, client: int) -> float:
        seen.append((client, len(labels), logits.shape))
        return float(client)

    register("test-spy", title="Spy")(spy)
    try:
        evaluation = {"metrics": ("test-spy",), "points": ("post_agg",)}
        run = toys.run("fedavg", rounds=1, evaluation=evaluation)
        with pytest.raises(MetricError, match="'test-spy' is taken"):
            register("test-spy", title="Spy")(spy)
    finally:
        del METRICS["test-spy"]
    assert seen == [(client, 9, (9, 4)) for client in range(6)]
    assert (1, "post_agg/test-spy", 2.5) in run.rows


@pytest.mark.parametrize("metrics", [(), ("loss",)])
def test_logits_are_kept_only_if_a_metric_needs_them(
    metrics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, count_correct = [], Scores.count_correct

    def watched(
        self: Scores, models: Models, split: str, clients: list[int], logits: Any = None
    ) -> Any:
        counted = count_correct(self, models, split, clients, logits)
        kept.append(sum(map(len, logits or ())))
        return counted

    monkeypatch.setattr(Scores, "count_correct", watched)
    toys.run("fedavg", rounds=1, evaluation={"metrics": metrics})
    assert len(kept) == 2  # before and after aggregation
    assert all(bool(count) == bool(metrics) for count in kept)


def test_an_unknown_metric_costs_one_line() -> None:
    assert recipe(evaluation={"metrics": ["auc"]}).evaluation.metrics == ("auc",)
    with pytest.raises(UserError, match=r"unknown evaluation.metrics 'acu'; .*auc"):
        recipe(evaluation={"metrics": ["acu"]})
