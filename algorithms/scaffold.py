"""SCAFFOLD: control variates correct every local gradient, and travel like models."""

from __future__ import annotations

import torch

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The server's step."""

    server_lr: float = param(
        1.0, "step of the server towards the average", gt=0, search={"log": [0.1, 1]}
    )


@register(
    "scaffold",
    title="SCAFFOLD",
    paper=(
        "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning,"
        " ICML 2020, arXiv 1910.06378"
    ),
    year=2020,
    family="global",
    sends="model and control variate, down and up",
    cost=1.1,
    version=2,
)
class Scaffold(FedAvg[HP]):
    """w_i <- w_i - lr (grad F_i(w_i) - c_i + c) for S steps from w (option II of the paper):

        c_i+ = c_i - c + (w - w_i) / (S lr);   w <- w + server_lr (sum_i p_i w_i - w);
        c <- c + (1/N) sum_i (c_i+ - c_i).

    Variates have no part for running statistics, which are averaged as in FedAvg if the recipe says
    so. Differences from published code: docs/methods/scaffold.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        c = torch.zeros_like(fed.new_model())
        return super().init(fed) | {"c": c, "c_own": c.repeat(fed.N, 1)}  # [D], [N, D]

    def round(self, state: State, fed: Federation) -> State:
        learnable = fed.params.learnable
        start, c = self.download(state, fed), fed.down(state["c"], learnable)  # [K, D]
        own = state["c_own"][fed.active]
        end = fed.train(start, step=corrected, models={"c": c, "own": own})

        steps = fed.local_steps[:, None]  # [K, 1]
        slope = (start - end) / steps.clamp(min=1) / fed.lr
        change = torch.where(learnable & (steps > 0), slope - c, 0.0)
        new = self.upload_and_average(state, fed, end)
        theta = self.server_step(state, fed, new["theta"], self.hp.server_lr)
        c = state["c"] + fed.up(change, learnable).sum(0) / fed.N
        c_own = fed.scatter_rows(state["c_own"], own + change)
        return new | {"theta": theta, "c": c, "c_own": c_own}


def corrected(client: Client, batch: Batch) -> None:
    """Take a step along the corrected gradient."""
    c, own = client.tensors("c"), client.tensors("own")
    client.update({name: g + c[name] - own[name] for name, g in client.grad(batch).items()})
