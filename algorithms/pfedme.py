"""pFedMe: personal models solve a proximal problem within every step of the local ones."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The inner problem and the steps of both models."""

    lam: float = param(
        15.0, "strength of the pull between personal and local model", gt=0, search={"log": [1, 50]}
    )
    inner_steps: int = param(5, "steps of the personal model on a mini-batch", ge=1)
    inner_lr: float = param(
        0.01, "learning rate of the personal model", gt=0, search={"log": [0.001, 0.1]}
    )
    beta: float = param(
        1.0, "step of the server towards the average", gt=0, search={"log": [0.5, 2]}
    )


@register(
    "pfedme",
    title="pFedMe",
    paper=(
        "Dinh et al., Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020, arXiv"
        " 2006.08848"
    ),
    year=2020,
    family="regularised",
    sends="as FedAvg: the local model down and up; personal models stay",
    fast_hp={"inner_steps": 2},
    cost=4.7,
    version=2,
)
class PFedMe(FedAvg[HP]):
    """On every mini-batch, with w_i and t_i starting from w:

        t_i <- t_i - inner_lr (grad F_i(t_i) + lam (t_i - w_i)), several times;
        w_i <- w_i - lr lam (w_i - t_i);   then  w <- (1 - beta) w + beta sum_i p_i w_i.

    t_i goes on from one mini-batch to the next and is what is scored. Differences from published
    code: docs/methods/pfedme.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        return super().init(fed) | {"personal": fed.client_rows(fed.new_model()[None])}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        start = self.download(state, fed)  # [K, D]
        models = {"params": start, "local": start.clone()}
        step = partial(self.step, lr=fed.lr)
        done = fed.train(models, step=step, keep=("models",), lr=self.hp.inner_lr).models
        personal, local = done["params"], done["local"]
        fed.score("pre_agg", personal)
        local = torch.where(fed.params.stats, personal, local)  # batch norm has seen t_i's inputs
        new = self.upload_and_average(state, fed, local)
        theta = self.server_step(state, fed, new["theta"], self.hp.beta)
        personal = fed.scatter_rows(state["personal"], personal)
        return new | {"theta": theta, "personal": personal}

    def step(self, client: Client, batch: Batch, *, lr: float) -> None:
        """Move the personal model several times, then the local one once."""
        local, personal = client.tensors("local"), client.tensors()
        for _ in range(self.hp.inner_steps):
            grads = client.grad(batch)
            pull = {n: self.hp.lam * (personal[n] - local[n]) for n in grads}
            client.update({n: g + pull[n] for n, g in grads.items()})
        for n in grads:
            local[n].sub_(lr * self.hp.lam * (local[n] - personal[n]))

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["personal"][fed.active]
