"""IFCA against its authors' code for rotated MNIST: the models after full-batch steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tests.algorithms import plain, toys
from tests.references import nets

if TYPE_CHECKING:
    from tests.references.conftest import Get

SIZES = (16, 16, 8, 16, 12, 16)
CLUSTERS, ROUNDS = 3, 4


def test_ifca_is_its_authors(reference: Get, borrowed: Any) -> None:
    """Everybody takes part and weighs alike; a mini-batch holds all samples of a client."""
    protocol: dict[str, Any] = {"epochs": 3, "batch": 16, "rounds": ROUNDS, "weighting": "uniform"}
    run = toys.run("ifca", {"clusters": CLUSTERS}, sizes=SIZES, dtype=torch.float64, **protocol)
    fed = run.fed
    folder = reference("jichan3751/ifca", "61e44b8", "mnist") / "mnist"
    borrowed(folder)
    from train_cluster_mnist import TrainMNISTCluster  # type: ignore[import-not-found]

    class Theirs(TrainMNISTCluster):  # type: ignore[misc]
        def load_data(self, m_i: int, train: bool = True) -> tuple[Tensor, Tensor]:
            index = fed.data.train[m_i]
            return fed.data.inputs(index), fed.data.labels[index]

    sizes = {"m": len(SIZES), "m_test": len(SIZES), "p": CLUSTERS, "tau": 3}
    theirs = Theirs(sizes)
    begun = [fed.new_model(), fed.new_model(1), fed.new_model(2)]
    theirs.models = [nets.load(fed, nets.Tiny(fed), flat) for flat in begun]
    theirs.criterion = torch.nn.CrossEntropyLoss()
    theirs.dataset = {split: {"cluster_assign": [0] * len(SIZES)} for split in ("train", "test")}
    used = set()
    for _ in range(ROUNDS):
        chosen = theirs.get_inference_stats(train=True)["cluster_assign"]
        used |= set(chosen)
        theirs.train(chosen, lr=fed.lr)
    ends = torch.stack([nets.join(fed, model.state_dict()) for model in theirs.models])
    assert len(used) > 1
    assert plain.apart(ends, run.state["theta"]) < 1e-9
    chosen = theirs.get_inference_stats(train=True)["cluster_assign"]
    assert plain.apart(ends[chosen], toys.everybody(run)) < 1e-9
