"""pFedHN: a network at the server generates every client's model, and learns from their changes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.server_module import ServerModule
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The hypernetwork and its optimiser."""

    embedding: int | None = param(None, "numbers that describe a client; none: 1 + N / 4", ge=1)
    hidden: int = param(100, "width of the hidden layers", ge=1)
    layers: int = param(3, "hidden layers after the first", ge=0)
    server_lr: float = param(
        0.01,
        "learning rate of the hypernetwork",
        gt=0,
        paper="code 0.01",
        search={"log": [1e-3, 1]},
    )
    momentum: float = param(0.9, "momentum of the hypernetwork", ge=0, lt=1, paper="code 0.9")
    weight_decay: float = param(1e-3, "weight decay of the hypernetwork", ge=0, paper="code 0.001")
    clip: float = param(50.0, "largest norm of the hypernetwork's gradient", gt=0, paper="code 50")


class Hypernetwork(nn.Module):
    """From clients to model vectors  [K] -> [K, D]."""

    def __init__(self, clients: int, embedding: int, hidden: int, layers: int, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(clients, embedding)
        parts: list[nn.Module] = [nn.Linear(embedding, hidden)]
        for _ in range(layers):
            parts += [nn.ReLU(), nn.Linear(hidden, hidden)]
        self.net = nn.Sequential(*parts, nn.Linear(hidden, size))

    def forward(self, clients: Tensor | None = None) -> Tensor:
        """Generate models of clients; without any, that of the mean embedding  [1, D]."""
        code = self.embed.weight.mean(0, keepdim=True) if clients is None else self.embed(clients)
        out: Tensor = self.net(code)
        return out


@register(
    "pfedhn",
    title="pFedHN",
    paper=(
        "Shamsian et al., Personalized Federated Learning using Hypernetworks, ICML 2021, arXiv"
        " 2103.04628; code: AvivSham/pFedHN at 1bc0549"
    ),
    year=2021,
    family="hypernetwork",
    sends="a generated model down, its change up",
    fast_hp={"hidden": 8},
    gate_hp={"hidden": 8, "clip": 0.5},
    cost=1.6,
)
class PFedHN(FedAvg[HP]):
    """w_i = h(v_i; phi);  w_i' <- SGD on F_i from w_i;  (phi, v_i) <- (phi, v_i) - server_lr *
    mean over participants of (d w_i / d (phi, v_i))^T (w_i - w_i'), by SGD with momentum.

    Batch-norm statistics stay with clients. Differences from published code:
    docs/methods/pfedhn.md.
    """

    HP = HP
    server_rows = ("hyper*",)

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.params.learnable

    def init(self, fed: Federation) -> State:
        state = super().init(fed)
        del state["theta"]
        return state | self.hyper(fed.N, fed).init(fed)

    def hyper(self, clients: int, fed: Federation) -> ServerModule:
        """Return the hypernetwork of so many clients."""
        hp = self.hp
        size = 1 + clients // 4 if hp.embedding is None else hp.embedding
        shape = (clients, size, hp.hidden, hp.layers, fed.D)
        return ServerModule("hyper", lambda: Hypernetwork(*shape))

    def round(self, state: State, fed: Federation) -> State:
        hyper, sent = self.hyper(fed.N, fed), fed.params.learnable
        start = self.merge(state, fed, fed.down(hyper(state, fed.active), sent))  # [K, D]
        end = fed.train(start)
        change = torch.where(sent, fed.up(start - end, sent), 0.0)
        options: dict[str, Any] = {"lr": self.hp.server_lr, "momentum": self.hp.momentum}
        options |= {"weight_decay": self.hp.weight_decay, "clip": self.hp.clip}
        # the gradient of this product is (d w_i / d phi)^T (w_i - w_i'), averaged
        new = hyper.step(state, lambda net: (net(fed.active) * change).sum() / fed.K, **options)
        return self.keep(state, fed, end) | new

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return self.merge(state, fed, self.hyper(fed.N, fed)(state, fed.active))

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the model of the mean embedding."""
        clients = len(state["hyper/embed.weight"])
        generated = self.hyper(clients, fed)(state)[0]
        return torch.where(fed.params.learnable, generated, fed.new_model())
