"""FedDPA: keep the entries that carry most Fisher information about a client's data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras, cross_entropy
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.math.fisher import fisher
from repfl.algorithms.math.importance import min_max, quantile


@hyperparameters
class HP:
    """Which entries are personal, and how the two kinds are trained."""

    tau: float = param(
        0.4,
        "bar for the normalised Fisher information",
        ge=0,
        le=1,
        paper=0.4,
        search={"uniform": [0.1, 0.9]},
    )
    threshold: Literal["quantile", "absolute"] = param(
        "quantile",
        "tau is a quantile of each tensor's values (FedOBP's baseline), or the bar itself (FedDPA)",
        paper="FedOBP: quantile",
    )
    training: Literal["joint", "phases"] = param(
        "joint",
        "E epochs on everything (FedOBP's baseline), or FedDPA's two regularised phases of E epochs"
        " each",
        paper="FedOBP: joint",
        search={"one of": ["joint", "phases"]},
    )
    lam1: float = param(
        0.1,
        "phases: strength of the pull of personal entries towards the global model",
        ge=0,
        paper=0.1,
        search={"log": [0.01, 1]},
    )
    lam2: float = param(
        0.05, "phases: strength with which the update's norm is drawn to `clip`", ge=0, paper=0.05
    )
    clip: float = param(0.5, "phases: largest norm of an uploaded update", gt=0, paper=0.5)
    noise: float = param(
        0.0,
        "phases: noise on an update, in units of clip / sqrt(N)",
        ge=0,
        paper="set by the privacy budget",
    )


@register(
    "feddpa",
    title="FedDPA",
    paper=(
        "Yang et al., Dynamic Personalized Federated Learning with Adaptive Differential Privacy,"
        " NeurIPS 2023; code: xiyuanyang45/DynamicPFL at 4461ecb"
    ),
    year=2023,
    family="mask",
    needs=("epochs",),
    sends="the whole model (with phases: its update) down and up; masks stay with the clients",
    variants=("threshold=absolute", "training=phases", "threshold=absolute, training=phases"),
    cost=1.9,
)
class FedDPA(Method[HP]):
    """Before training, client i takes the global model except where its own last model w_i has much
    Fisher information.

    F = mean over its samples of (d log p(y | x) / d w_i)^2, scaled to [0, 1] per tensor;
    U_i = {F > bar};  start = w_i on U_i, w_g elsewhere.
    `joint` (FedOBP's baseline): E epochs of SGD on all entries; the server averages whole models.
    `phases` (FedDPA): E epochs on U_i with CE + lam1 / 2 sum_l |w_l - w_g,l| over tensors l, then E
    epochs on the rest with CE + lam2 / 2 |sum_l |w_l - w_g,l| - clip|; the update w_i - w_g,
    clipped and with Gaussian noise, is averaged into w_g.

    Scored: the merged model before training; with `phases` the model that a client last trained.
    Differences from published code: docs/methods/feddpa.md.
    """

    HP = HP
    scores_start = True

    def init(self, fed: Federation) -> State:
        theta = fed.new_model()
        return {"theta": theta, "last": fed.client_rows(theta[None])}  # [D], [N, D]

    def round(self, state: State, fed: Federation) -> State:
        mask = self.personal_mask(state, fed)
        received = fed.down(state["theta"])
        start = self.merge(state, fed, mask, received)
        joint = self.hp.training == "joint"
        fed.score("start", start if joint else state["last"][fed.active])
        if joint:
            end = fed.train(start)
            mean = fed.mean(fed.up(end))
        else:
            end = self.train_phases(fed, start, received, mask)
            mean = state["theta"] + fed.mean(fed.up(self.privatise(fed, end - received)))
        fed.log("personal", mask.sum(1).float().mean())
        fed.count_mask("personal", mask)
        theta = torch.where(fed.communicated, mean, state["theta"])
        return {"theta": theta, "last": fed.scatter_rows(state["last"], end)}

    def personal_mask(self, state: State, fed: Federation) -> Tensor:
        """Return the mask of the active clients' personal entries  [K, D] bool."""
        information = fisher(fed, state["last"][fed.active])
        mask = torch.zeros_like(information, dtype=torch.bool)
        for s in fed.params.trained:
            part = min_max(information[:, s.place])
            by_quantile = self.hp.threshold == "quantile"
            mask[:, s.place] = part > (quantile(part, self.hp.tau) if by_quantile else self.hp.tau)
        return mask

    def merge(self, state: State, fed: Federation, mask: Tensor, received: Tensor) -> Tensor:
        """Return models of personal entries (and those that are not communicated) from the clients'
        last models, the others from what they received  [K, D].
        """
        return torch.where(mask | ~fed.communicated, state["last"][fed.active], received)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        if self.hp.training == "phases":
            return state["last"][fed.active]
        return self.merge(state, fed, self.personal_mask(state, fed), state["theta"])

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train the global model, which then is the newcomer's last one; score it as all clients
        are.
        """
        theta = self.newcomer_init(state, fed)
        last = fed.train(theta.expand(fed.N, -1), stream="join")
        return self.client_params({"theta": theta, "last": last}, fed)

    # -- training in phases ------------------------------------------------------------------------

    def train_phases(
        self, fed: Federation, start: Tensor, received: Tensor, mask: Tensor
    ) -> Tensor:
        """Train personal entries, then the shared ones  [K, D]."""
        common: dict[str, Any] = {"models": {"global": received}}
        middle = fed.train(start, loss=self.near_loss, trainable=mask, **common)
        shared = fed.params.learnable & ~mask
        later = {"trainable": shared, "first_epoch": fed.epochs, **common}
        return fed.train(middle, loss=self.clip_loss, **later)

    def near_loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return cross-entropy plus the distance to the global model."""
        distance = distance_between(model, extras["global"])
        return cross_entropy(model, batch, extras) + self.hp.lam1 / 2 * distance

    def clip_loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return cross-entropy plus how far the update's norm is from `clip`."""
        gap = (distance_between(model, extras["global"]) - self.hp.clip).abs()
        return cross_entropy(model, batch, extras) + self.hp.lam2 / 2 * gap

    def privatise(self, fed: Federation, update: Tensor) -> Tensor:
        """Clip updates [K, D] and add noise; batch-norm statistics are left alone."""
        learnable = fed.params.learnable
        norm = torch.where(learnable, update, 0.0).norm(dim=1, keepdim=True)
        bounded = update / (norm / self.hp.clip).clamp(min=1)
        if self.hp.noise:
            scale = self.hp.noise * self.hp.clip / fed.N**0.5
            drawn = np.stack(
                [fed.rng("noise", client).standard_normal(fed.D) for client in fed.active_ids]
            )
            bounded = bounded + scale * torch.from_numpy(drawn).to(fed.device, fed.dtype)
        return torch.where(learnable, bounded, update)


def distance_between(model: ClientModel, other: ClientModel) -> Tensor:
    """Return the sum over learnable tensors of the distance between two models."""
    names = [s.name for s in model.model.params.trained]
    return torch.stack(
        [(model.tensors[n] - other.tensors[n]).flatten().norm(dim=0) for n in names]
    ).sum()
