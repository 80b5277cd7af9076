"""FLUTE: a shared representation whose personal heads are drawn towards neural collapse."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.fedper import FedPer, Newcomer


@hyperparameters
class HP:
    """Strengths of the regularisers, and what trains when."""

    body_epochs: int | None = param(
        None,
        "the last so many epochs train everything, those before them the head alone; none: all do",
        ge=0,
        paper="all; FL-bench: 1",
    )
    align: float = param(
        0.25,
        "weight of the head's distance to a simplex frame",
        ge=0,
        paper="FL-bench: 0.25",
        search={"log": [0.025, 2.5]},
    )
    head_decay: float = param(
        0.0025,
        "weight of the head's squared norm",
        ge=0,
        paper="FL-bench: 0.0025",
        search={"log": [0.00025, 0.025]},
    )
    feature_decay: float = param(
        0.0005, "weight of the features' squared norm", ge=0, paper="FL-bench: 0.0005"
    )
    server_lr: float = param(
        0.5,
        "step of the server on the participants' heads",
        ge=0,
        paper="FL-bench: 0.5",
        search={"log": [0.05, 5]},
    )
    mode: Literal["paper", "flbench"] = param(
        "paper",
        "`flbench` reproduces FedOBP's tables: features' norms are summed over a batch, and the"
        " server's step is divided by K",
        paper="FedOBP's tables: flbench",
        aliases=("mode", "compat"),
    )
    detach: bool = param(
        False,
        "no gradient of the loss reaches the body, as FL-bench runs it and FedOBP's tables have it",
        paper="FedOBP's tables: true",
    )
    newcomer: Newcomer = param(
        "initial",
        "head of a client that never took part; `global` is the average of the heads (FL-bench)",
        paper="FedOBP's tables: global",
    )


def relative_cost(hp: HP, epochs: float, samples: float) -> float:
    """An epoch of the head alone is a forward pass of the body: a third; `detach` measured half."""
    head = 0.0 if hp.body_epochs is None else max(epochs - hp.body_epochs, 0.0)
    return 1.2 * (epochs - head + head / (6 if hp.detach else 3)) / epochs


@register(
    "flute",
    title="FLUTE",
    paper=(
        "Liu et al., Federated Representation Learning in the Under-Parameterized Regime, ICML"
        " 2024, arXiv 2406.04596"
    ),
    year=2024,
    family="partial",
    needs=("head",),
    sends="the body down and up; the head's weight up, and corrected down; a bit per class up",
    version=2,
    variants=(
        "detach=true",
        "newcomer=global",
        "mode=flbench, body_epochs=1, detach=true, newcomer=global",
    ),
    cost=relative_cost,
)
class FLUTE(FedPer[HP]):
    """FedPer with heads W (classes C) that the clients and the server draw towards an equiangular
    frame of the classes u a client has.

    A(W, u) = | W W^T / |W W^T| - (I - 1 1^T / C) o (u u^T) / sqrt(C - 1) |, Frobenius norms.
    Clients minimise CE + align A(W, u) + head_decay |W|^2 + feature_decay mean |features|^2 over
    body and head at once. The server averages the bodies and takes one step on the heads it got:
    W_i <- W_i - server_lr * grad A(W_i, u_i). Biases stay.

    Differences from published code: docs/methods/flute.md.
    """

    HP = HP

    def round(self, state: State, fed: Federation) -> State:
        weight = fed.params.mask([fed.params.head_weight])
        present = fed.class_counts > 0  # [K, classes]
        params = self.train(fed, self.download(state, fed), present)
        sent = self.uploaded_mask(fed)
        arrived, classes = fed.up(params, sent | weight), fed.send("up", present)
        theta = torch.where(sent, fed.mean(arrived), state["theta"])
        corrected = fed.down(self.correct(fed, arrived, classes), weight)
        return {"theta": theta, **self.keep(state, fed, torch.where(weight, corrected, params))}

    def correct(self, fed: Federation, params: Tensor, present: Tensor) -> Tensor:
        """Return models [K, D] after the server's step on their head weights."""
        weight = fed.params.head_weight
        heads = params[:, weight.place].view(-1, *weight.shape).clone().requires_grad_()
        (grad,) = torch.autograd.grad(misalignment(heads, present.to(fed.dtype)).sum(), heads)
        step = grad / len(heads) if self.hp.mode == "flbench" else grad
        corrected = params.clone()
        corrected[:, weight.place] = (heads.detach() - self.hp.server_lr * step).flatten(1)
        return corrected

    # -- local training ----------------------------------------------------------------------------

    def train(self, fed: Federation, params: Tensor, present: Tensor) -> Tensor:
        """Train the head alone for some epochs, then all, under one optimiser  [K, D]."""
        alone = 0 if self.hp.body_epochs is None else max(fed.epochs - self.hp.body_epochs, 0)
        head_steps = alone * fed.steps_per_epoch
        heads = {s.name for s in fed.params.tensors(head=True)}

        def step(client: Client, batch: Batch) -> None:
            left = client.extras["head_steps"]
            joint = left <= 0
            client.extras.update(head_steps=left - 1, joint=joint.to(fed.dtype))
            client.masks = {n: mask if n in heads else joint for n, mask in client.masks.items()}
            client.update(client.grad(batch, self.loss))

        return fed.train(
            params,
            step=step,
            extras={
                "present": present.to(fed.dtype),
                "head_steps": head_steps,
                "joint": torch.zeros_like(head_steps, dtype=fed.dtype),
            },
            trainable=fed.params.head if self.hp.detach else None,
        )

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the cross-entropy and the three regularisers."""
        features = model.features(batch.x)  # [B, F]
        if self.hp.detach:
            features = features.detach()
        weight = model.tensors[f"{model.model.head_name}.weight"][None]  # [1, classes, F]
        energy = features.square().sum(1)
        energy = energy.sum() if self.hp.mode == "flbench" else energy.mean()
        shape = self.hp.align * misalignment(weight, extras["present"][None])[0]
        shape = shape + self.hp.head_decay * weight.square().sum()
        fit = F.cross_entropy(model.head(features), batch.y)
        return fit + shape + self.hp.feature_decay * extras["joint"] * energy


def misalignment(weight: Tensor, present: Tensor) -> Tensor:
    """Return the distance of every head's Gram matrix from the frame of its client's classes
    [K, classes, F], [K, classes] -> [K].
    """
    classes = weight.shape[1]
    gram = weight @ weight.mT
    norm = gram.flatten(1).norm(dim=1).clamp(min=torch.finfo(gram.dtype).tiny)
    frame = torch.eye(classes, dtype=gram.dtype, device=gram.device) - 1 / classes
    goal = frame * present[:, :, None] * present[:, None, :] / (classes - 1) ** 0.5
    return (gram / norm[:, None, None] - goal).flatten(1).norm(dim=1)
