"""kNN-Per against its authors' code: what their client predicts from features and probabilities.

A stand-in for faiss searches exhaustively, as the index that they choose does.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.run import Run
from tests.algorithms import plain, toys

if TYPE_CHECKING:
    from tests.references.conftest import Get

SIZES = (25, 16, 40)
WIDTH, CLASSES = 32, 4


def predicted(run: Run) -> list[Tensor]:
    """The logits of all clients on their test samples, as scoring has them."""
    fed, logits = run.fed, [[] for _ in range(run.fed.N)]  # type: ignore[var-annotated]
    with fed.as_active(range(fed.N)):
        fed.scores.count_correct(run.scored_models(), "test", fed.active_ids, logits)
    return [torch.cat(rows) for rows in logits]


class Index:
    """All vectors, searched one by one by squared distance."""

    def __init__(self, size: int) -> None:
        self.vectors = np.zeros((0, size))

    def add(self, vectors: Any) -> None:
        self.vectors = np.concatenate([self.vectors, vectors])

    def search(self, queries: Any, k: int) -> tuple[Any, Any]:
        squares = ((queries[:, None] - self.vectors) ** 2).sum(2)
        index = squares.argsort(1)[:, :k]
        return np.take_along_axis(squares, index, 1), index


class Learner:
    """Features and probabilities of one model of ours, in the authors' words."""

    device, model = "cpu", MagicMock()

    def __init__(self, p: dict[str, Tensor]) -> None:
        self.p = p

    def compute_embeddings_and_outputs(self, iterator: Any, **_: Any) -> tuple[Any, Any, Any]:
        x, y = iterator.dataset.x, iterator.dataset.y
        logits = plain.logits(self.p, x, train=False)
        return plain.features(self.p, x, train=False).numpy(), logits.softmax(1).numpy(), y.numpy()


class Samples:
    """Samples of a client."""

    def __init__(self, fed: Any, index: Tensor) -> None:
        self.x, self.y = fed.data.inputs(index), fed.data.labels[index]

    def __len__(self) -> int:
        return len(self.y)


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_knn_per_is_its_authors(reference: Get, borrowed: Any, scale: float) -> None:
    hp = {"neighbours": 7, "weight": 0.6, "scale": scale}
    run = toys.run("knn-per", hp, sizes=SIZES, dtype=torch.float64)
    fed, p = run.fed, plain.named(run.fed, run.state["theta"])
    root = reference("omarfoq/knn-per", "ee17520", "client.py", "datastore.py", "utils")
    constants = {"ALL_STRATEGIES": ["random"]}
    stubs: dict[str, Any] = {"faiss": {"IndexFlatL2": Index}, "utils.constants": constants}
    borrowed(root, stubs | {"utils.torch_utils": {}})
    theirs = import_module("client").KNNPerClient
    for client, logits in enumerate(predicted(run)):
        loaders = [
            SimpleNamespace(dataset=Samples(fed, part[client]))
            for part in (fed.data.train, fed.data.test)
        ]
        one = theirs(
            *(Learner(p), loaders[0], None, loaders[1], None, None, 7, False, WIDTH, CLASSES),
            *(-1, "random", np.random.default_rng(0)),
        )
        one.capacity = 10**6
        one.compute_features_and_model_outputs()
        one.build_datastore()
        one.gather_knn_outputs(scale=scale)
        mixed = 0.6 * one.test_knn_outputs + 0.4 * one.test_model_outputs
        assert plain.apart(torch.from_numpy(mixed), logits.exp()) < 1e-9
        hits = (logits.argmax(1) == fed.data.labels[fed.data.test[client]]).double().mean()
        assert float(one.evaluate(0.6)) == float(hits)
