"""FLUTE: a shared representation whose personal heads are drawn towards neural collapse."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.batches import Batch, steps_per_epoch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial


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
        spelled=("mode", "compat"),
    )
    detach: bool = param(
        False,
        "no gradient reaches the body, which stays random: FL-bench's defect, in FedOBP's tables",
        paper="FedOBP's tables: true",
    )
    newcomer: partial.Newcomer = param(
        "initial",
        "head of a client that never took part; `global` is the average of the heads (FL-bench)",
        paper="FedOBP's tables: global",
    )


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
)
class FLUTE(Partial[HP]):
    """FedPer with heads W (classes C) that the clients and the server draw towards an equiangular
    frame of the classes u a client has.

    A(W, u) = | W W^T / |W W^T| - (I - 1 1^T / C) o (u u^T) / sqrt(C - 1) |, Frobenius norms.
    Clients minimise CE + align A(W, u) + head_decay |W|^2 + feature_decay mean |features|^2 over
    body and head at once. The server averages the bodies and takes one step on the heads it got:
    W_i <- W_i - server_lr * grad A(W_i, u_i). Biases stay.

    Strengths and rates are those of its authors' code (RenpuLiu/flute at 14dd19d, models/Update.py:
    202 to 213 and 253) and of FL-bench. That code sums the features' norm over a batch (of ten in
    its README's command) and divides the server's step by the number of participants (316), as
    `compat=flbench` does; it trains the head alone first, for nine of ten epochs (`body_epochs`;
    the paper's FLUTE* does it the other way round). Here bodies are weighed as the recipe says
    (paper: uniformly). FL-bench by accident cuts features off from the body (`detach`): heads on a
    random representation.
    """

    HP = HP

    def passes(self, epochs: int) -> tuple[int, int]:
        return (0, epochs) if self.hp.detach else (epochs, 0)

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged_body

    def round(self, state: State, fed: Federation) -> State:
        place = fed.layout.head_weight
        weight = fed.layout.where(name=place.name)
        start = self.received(state, fed)
        present = fed.data.class_counts[fed.active] > 0  # [K, classes]
        trained = self.train(fed, start, present)
        fed.trained = trained
        if self.hp.newcomer == "initial":  # otherwise all of the model goes up below
            fed.up(trained, weight)
        fed.up_mask(present, torch.ones_like(present[0]))
        corrected = trained.clone()
        heads = trained[:, weight].view(-1, *place.shape)
        corrected[:, weight] = self.correct(heads, present.to(fed.dtype)).flatten(1)
        fed.down(corrected, weight)
        average = self.average(state, fed, trained)
        return average | partial.kept(state, fed, corrected, self.shared(fed))

    def correct(self, heads: Tensor, present: Tensor) -> Tensor:
        """The server's step on uploaded head weights  [K, classes, F]."""
        leaf = heads.clone().requires_grad_()
        (grad,) = torch.autograd.grad(misalignment(leaf, present).sum(), leaf)
        return heads - self.hp.server_lr * (
            grad / len(heads) if self.hp.mode == "flbench" else grad
        )

    # -- local training ----------------------------------------------------------------------------

    def train(self, fed: Federation, start: Tensor, present: Tensor) -> Tensor:
        """Head-only epochs, then joint ones, under one optimiser  [K, D]."""
        p = fed.protocol
        steps = steps_per_epoch(fed.n_train, p.batch, p.skip_single)
        alone = 0 if self.hp.body_epochs is None else max(p.epochs - self.hp.body_epochs, 0)
        before = alone * steps
        extras = {
            "present": present.to(fed.dtype),
            "before": before,
            "joint": torch.zeros_like(before, dtype=fed.dtype),
        }
        return fed.loop(
            self.step,
            {"w": start},
            extras=extras,
            trainable=fed.layout.head if self.hp.detach else None,
            same="collapse",
        ).theta

    def step(self, local: Chunk, batch: Batch) -> None:
        before = local.extras["before"]  # [K], head-only steps still to come
        joint = (before <= 0).to(local.extras["joint"].dtype)
        local.extras |= {"before": before - 1, "joint": joint}
        whole = dict(local.masks)
        for name in local.masks:
            if not local.layout[name].head:
                local.masks[name] = joint.view(-1, *[1] * len(local.layout[name].shape))
        local.sgd(local.grad(batch, self.loss))
        local.masks = whole

    def loss(self, local: Chunk, batch: Batch, params: Params) -> Tensor:
        """Cross-entropy and the three regularisers  [K]."""
        features = local.model.features(params, batch.x, batch.mode)  # [K, B, F]
        if self.hp.detach:
            features = features.detach()
        weight = params[local.layout.head_weight.name]
        energy = features.square().sum(2)
        summed = (energy if batch.valid is None else energy * batch.valid).sum(1)
        energy = summed if self.hp.mode == "flbench" else batch.mean(energy)
        fit = entropy_of(local.model.head(params, features), batch)
        shape = self.hp.align * misalignment(
            weight, local.extras["present"]
        ) + self.hp.head_decay * weight.square().sum((1, 2))
        return fit + shape + self.hp.feature_decay * local.extras["joint"] * energy


def misalignment(weight: Tensor, present: Tensor) -> Tensor:
    """Distance of every head's Gram matrix from the frame of the classes at hand  [K, classes, F],
    [K, classes] -> [K].
    """
    classes = weight.shape[1]
    gram = weight @ weight.transpose(1, 2)
    norm = gram.flatten(1).norm(dim=1).clamp(min=torch.finfo(gram.dtype).tiny)
    frame = torch.eye(classes, dtype=gram.dtype, device=gram.device) - 1 / classes
    goal = frame * present[:, :, None] * present[:, None, :] / (classes - 1) ** 0.5
    return (gram / norm[:, None, None] - goal).flatten(1).norm(dim=1)
