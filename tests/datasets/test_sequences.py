"""Signals and token ids from the user's arrays to a trained model, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import repfl
from repfl.bench.grid import plugins
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.custom import from_arrays, register
from tests.bench.conftest import ROOT

ROLES = ROOT / "bench" / "examples" / "roles.py"


def recipe(dataset: str, model: str, **changes: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": model,
        "clients": 4,
        "partition": {"rule": "persons", "options": {"train_share": 0.75}},
        "training": {"rounds": 2, "epochs": 1, "batch": 16, "lr": 0.1},
        **changes,
    }


def test_a_character_model_learns_from_roles() -> None:
    plugins.load([str(ROLES)])
    training = {"rounds": 8, "epochs": 3, "batch": 16, "lr": 0.3, "momentum": 0.5}
    run = repfl.open("fedavg", recipe("roles", "next-char", training=training), stack=4)
    x = run.fed.data.inputs(run.fed.data.train[0][:3])
    assert x.dtype == torch.int64
    assert x.shape == (3, 16)
    while not run.done:
        run.step()
    train = torch.cat(list(run.fed.data.train))
    logits = run.fed.model.bind(run.fed.params.unflatten(run.state["theta"]))(
        run.fed.data.inputs(train)
    )
    labels = run.fed.data.labels[train]
    # always answering with a blank is right at one of five places
    assert (labels == 0).double().mean() < 0.25
    assert (logits.argmax(1) == labels).double().mean() > 0.7
    sources = open_dataset("roles").source_ids
    assert sources is not None
    held = [set(sources[part.numpy()]) for part in (*run.fed.data.train, *run.fed.data.test)]
    assert sum(map(len, held)) == len(set.union(*held)) == 16


def test_stack_and_loop_agree_on_signals_and_tokens() -> None:
    plugins.load([str(ROLES)])
    rng = np.random.default_rng(0)
    labels = np.arange(96) % 3
    signals = rng.normal(size=(96, 2, 64)) + labels[:, None, None]
    register(
        from_arrays(
            "my-signals",
            lambda: {"all": (signals, labels, np.arange(96) // 24)},
            classes="abc",
            shape=(2, 64),
            groups=tuple("wxyz"),
        )
    )
    for dataset, model in (("my-signals", "conv1d"), ("roles", "next-char")):
        runs = [repfl.open("fedavg", recipe(dataset, model), stack=stack) for stack in (1, 2)]
        for run in runs:
            run.step()
        one, other = (run.state["theta"] for run in runs)
        assert torch.allclose(one, other, atol=1e-5)
    data = repfl.open("fedavg", recipe("my-signals", "conv1d")).fed.data
    where = {window.tobytes() for window in signals.astype(np.float32)}
    assert {x.contiguous().numpy().tobytes() for x in data.inputs(torch.arange(96))} == where


@pytest.mark.parametrize(
    ("dataset", "model", "problem"),
    [
        ("har", "lenet5", "takes images, and har has signals; valid: 'conv1d'"),
        ("har", "mlp", "takes images, and har has signals"),
        ("digits", "conv1d", "takes signals, and digits has images; valid: 'cnn4'"),
        ("roles", "conv1d", "takes signals, and roles has tokens; valid: 'next-char'"),
    ],
)
def test_a_model_of_another_kind_of_input_is_refused(
    dataset: str, model: str, problem: str
) -> None:
    plugins.load([str(ROLES)])
    clients = 30 if dataset == "har" else 4
    with pytest.raises(repfl.UserError, match=problem):
        repfl.open("fedavg", recipe(dataset, model, clients=clients))


@pytest.mark.parametrize(
    ("inputs", "labels", "facts", "problem"),
    [
        (np.zeros((4, 3)), np.zeros(4), {}, "regression is not supported"),
        (np.zeros((4, 3)), np.zeros((4, 2), int), {}, "several labels of a sample"),
        (np.zeros((4, 3), int), np.zeros((4, 3), int), {"vocabulary": 5}, "a label per token"),
        (np.zeros((4, 3)), np.zeros(4, int), {"vocabulary": 5}, "not integers"),
        (np.full((4, 3), 5), np.zeros(4, int), {"vocabulary": 5}, "reach from 5 to 5, not from 0"),
        (np.zeros((4, 2)), np.zeros(4, int), {"vocabulary": 5}, r"not integers \[n, 3\]"),
    ],
)
def test_what_is_no_class_per_sample_is_one_line(
    inputs: np.ndarray, labels: np.ndarray, facts: dict[str, Any], problem: str
) -> None:
    described = from_arrays(
        "odd", lambda: {"all": (inputs, labels)}, classes="ab", shape=(3,), **facts
    )
    with pytest.raises(DataError, match=problem) as caught:
        described.read(Path())
    assert "\n" not in str(caught.value)


def test_a_vocabulary_is_of_one_row_of_tokens() -> None:
    with pytest.raises(DataError, match=r"token ids have shape \(length,\), not"):
        from_arrays("odd", dict, classes="ab", shape=(3, 4), vocabulary=5)
