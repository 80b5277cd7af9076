"""FedDPA: keep the entries that carry most Fisher information about a client's data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core import importance
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, cross_entropy
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.fisher import fisher
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


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
    sends="the whole model (with phases: its update) down and up; masks stay with the clients",
    variants=("threshold=absolute", "training=phases", "threshold=absolute, training=phases"),
)
class FedDPA(Method[HP]):
    """Before training, client i takes the global model except where its own last model w_i has much
    Fisher information.

    F = mean over its samples of (d log p(y | x) / d w_i)^2, scaled to [0, 1] per tensor; personal
    U_i = {F > bar}; start = w_i on U_i, w_g elsewhere. `joint` (what FedOBP's tables use): E epochs
    of SGD on all entries, then the server averages whole models. `phases` (FedDPA): E epochs on U_i
    with CE + lam1 / 2 sum_l |w_l - w_g,l| over tensors l, E epochs on the rest with CE + lam2 / 2
    |sum_l |w_l - w_g,l| - clip|; the update w_i - w_g, clipped and with Gaussian noise, is averaged
    into w_g.

    Deviations: the optimiser is the protocol's SGD in both forms (FedDPA: Adam at 1e-3). The Fisher
    information is that of the client's own model; the code behind FedOBP's tables takes whichever
    model its simulator loaded last. A tensor with constant F has no personal entry. Scored: the
    merged model, before training; with `phases` the model that a client last trained.
    """

    HP = HP

    def passes(self, epochs: int) -> tuple[int, int]:
        return epochs * (2 if self.hp.training == "phases" else 1), 0

    def init(self, fed: Federation) -> State:
        theta = fed.new_model()
        return {"theta": theta, "last": theta.expand(fed.N, -1).clone()}  # [D], [N, D]

    def mask(self, state: State, fed: Federation) -> Tensor:
        """Which entries of the active clients are personal  [K, D] bool."""
        scores = importance.normalised(
            fed.layout, fisher(fed, state["last"][fed.active]), fed.layout.learnable, "layer"
        )
        if self.hp.threshold == "absolute":
            return scores > self.hp.tau
        return importance.above_quantile(
            fed.layout, scores, self.hp.tau, fed.layout.learnable, scope="tensor"
        )

    def merged(self, state: State, fed: Federation, mask: Tensor) -> Tensor:
        """Personal entries (and what the protocol leaves to clients) from the last model, the rest
        from the global one  [K, D].
        """
        return torch.where(mask | ~fed.exchanged, state["last"][fed.active], state["theta"])

    def round(self, state: State, fed: Federation) -> State:
        mask = self.mask(state, fed)
        start = self.merged(state, fed, mask)
        fed.down(state["theta"])
        if self.hp.training == "joint":
            end = fed.train(start).theta
            mean = fed.mean(fed.up(end))
        else:
            end = self.phases(state["theta"], fed, start, mask)
            mean = state["theta"] + fed.mean(fed.up(self.guarded(end - state["theta"], fed)))
        fed.note("personal", mask.sum(1).float().mean())
        fed.tally("personal", mask)
        theta = torch.where(fed.exchanged, mean, state["theta"])
        return {"theta": theta, "last": fed.put(state["last"], end)}

    def personal(self, state: State, fed: Federation) -> Tensor:
        if self.hp.training == "phases":
            return state["last"][fed.active]
        return self.merged(state, fed, self.mask(state, fed))

    def join(self, state: State, fed: Federation) -> Tensor:
        """A newcomer trains the global model, which then is its last one, and is scored as all
        clients are.
        """
        theta = self.offer(state, fed)
        last = fed.train(theta.expand(fed.N, -1), stream="join").theta
        return self.personal({"theta": theta, "last": last}, fed)

    # -- the original's training -------------------------------------------------------------------

    def phases(self, theta: Tensor, fed: Federation, start: Tensor, mask: Tensor) -> Tensor:
        """Personal entries first, then the shared ones  [K, D]."""
        common: dict[str, Any] = {"models": {"global": theta.expand(fed.K, -1)}}
        middle = fed.train(start, objective=self.near, trainable=mask, **common).theta
        shared = fed.layout.learnable & ~mask
        return fed.train(
            middle,
            objective=self.at_clip,
            trainable=shared,
            first_epoch=fed.protocol.epochs,
            **common,
        ).theta

    def near(self, local: Chunk, batch: Batch, params: Params) -> Tensor:
        """Cross-entropy and closeness to the global model  [K]."""
        return cross_entropy(local, batch, params) + self.hp.lam1 / 2 * distance(local, params)

    def at_clip(self, local: Chunk, batch: Batch, params: Params) -> Tensor:
        """Cross-entropy and an update as long as may be uploaded  [K]."""
        return (
            cross_entropy(local, batch, params)
            + self.hp.lam2 / 2 * (distance(local, params) - self.hp.clip).abs()
        )

    def guarded(self, update: Tensor, fed: Federation) -> Tensor:
        """Updates [K, D] of bounded norm, with noise; running statistics are left alone."""
        learnable = fed.layout.learnable
        norm = torch.where(learnable, update, 0.0).norm(dim=1, keepdim=True)
        bounded = update / (norm / self.hp.clip).clamp(min=1)
        if self.hp.noise:
            scale = self.hp.noise * self.hp.clip / fed.N**0.5
            drawn = np.stack(
                [fed.rng("noise", client).standard_normal(fed.D) for client in fed.active.tolist()]
            )
            bounded = bounded + scale * torch.from_numpy(drawn).to(fed.device, fed.dtype)
        return torch.where(learnable, bounded, update)


def distance(local: Chunk, params: Params) -> Tensor:
    """Sum over learnable tensors of the distance to the global model  [K]."""
    goal = local.models["global"]
    return torch.stack(
        [
            (params[s.name] - goal[s.name]).flatten(1).norm(dim=1)
            for s in local.layout
            if s.kind != "stat"
        ]
    ).sum(0)
