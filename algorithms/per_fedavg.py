"""Per-FedAvg: the global model is trained to be good after one step of fine-tuning."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras, cross_entropy
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The step that clients take by themselves."""

    alpha: float = param(
        0.01, "learning rate of the inner step", gt=0, search={"log": [0.001, 0.3]}
    )
    first_order: bool = param(False, "leave out the derivative of the inner gradient (FO)")


@register(
    "per-fedavg",
    title="Per-FedAvg",
    paper=(
        "Fallah et al., Personalized Federated Learning with Theoretical Guarantees: A"
        " Model-Agnostic Meta-Learning Approach, NeurIPS 2020, arXiv 2002.07948"
    ),
    year=2020,
    family="fine-tuning",
    sends="as FedAvg: the whole model down and up",
    variants=("first_order=true",),
    cost=2.6,
)
class PerFedAvg(FedAvg[HP]):
    """w_i <- w_i - lr grad F_i(w_i - alpha grad F_i(w_i; first half); second half);
    w <- sum_i p_i w_i. Clients are scored after one step from w with learning rate alpha.

    Both halves are of one mini-batch. A batch of one sample serves as both. Differences from
    published code: docs/methods/per_fedavg.md.
    """

    HP = HP

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        """Train the active clients' models for what they are after a step  [K, D]."""
        return fed.train(params, loss=self.loss)

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the loss of the second half after a step on the first."""
        half = (len(batch.y) + 1) // 2
        first, second = Batch(batch.x[:half], batch.y[:half]), Batch(batch.x[half:], batch.y[half:])
        if half == len(batch.y):
            second = first
        grads = model.grad(lambda start: cross_entropy(start, first, extras))
        if self.hp.first_order:
            grads = {name: g.detach() for name, g in grads.items()}
        step = {name: model.tensors[name] - self.hp.alpha * g for name, g in grads.items()}
        return cross_entropy(model.replace(step), second, extras)

    def personalize(self, fed: Federation, params: Tensor) -> Tensor:
        """Take one step on the first mini-batch  [K, D]."""
        return fed.train(params, epochs=1, steps=1, lr=self.hp.alpha, stream="finetune")
