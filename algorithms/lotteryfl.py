"""LotteryFL: every client looks for its own winning ticket."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math.masks import holders_mean, log_shares, masked_quantile

TINY = 1e-6
"""Magnitude below which the reference code takes a weight for a pruned one."""


@hyperparameters
class HP:
    """When a client prunes, how much, and how pruned weights are kept at zero."""

    share: float = param(
        0.1,
        "share of the remaining weights that one pruning removes, per tensor",
        ge=0,
        lt=1,
        paper="its code's default: 0.1; its commands for MNIST and CIFAR-10: 0.2, HAR: 0.3",
        search={"uniform": [0.05, 0.3]},
    )
    start: float = param(
        0.2,
        "a client prunes when its accuracy exceeds this",
        ge=0,
        le=1,
        paper="0.2; HAR: 0.7",
        search={"uniform": [0.1, 0.7]},
    )
    target: float = param(
        0.5,
        "a client prunes while more than this share remains",
        ge=0,
        le=1,
        paper="CIFAR-10: 0.5; MNIST, FEMNIST: 0.1",
        search={"uniform": [0.1, 0.9]},
    )
    judge: Literal["val", "test"] = param(
        "val",
        "data on which that accuracy is taken; without validation samples the training part serves",
        paper="text: val; code: test",
    )
    freeze: Literal["mask", "magnitude"] = param(
        "mask",
        "weights that do not train: the pruned ones, or all below 1e-6 at that step (code)",
        paper="text: mask; code: magnitude",
    )


@register(
    "lotteryfl",
    title="LotteryFL",
    paper=(
        "Li et al., LotteryFL: Empower Edge Intelligence with Personalized and"
        " Communication-Efficient Federated Learning, SEC 2021, arXiv 2008.03371; code:"
        " charleslipku/LotteryFL at 6b05c9c"
    ),
    year=2021,
    family="mask",
    sends=(
        "down: the client's remaining weights, all biases and norms; up: the same after pruning,"
        " and the mask as a bitmap over weights"
    ),
    variants=("judge=test, freeze=magnitude", "share=0.2", "target=0.1"),
    cost=1.1,
)
class LotteryFL(FedAvg[HP]):
    """A client masks the global model with m_i; if that is accurate enough and more than `target`
    remains, it prunes and rewinds.

    Prune: m_i <- m_i without the entries of each weight tensor below the `share` quantile of its
    non-zero magnitudes.  Rewind: all learnable entries <- the initial model.
    w_i <- E epochs of SGD on m_i from m_i * w;  w <- sum_i p_i m_i w_i / sum_i p_i m_i per entry,
    unchanged if no client holds it.

    Scored: m_i * w. Biases and normalisation are never pruned.
    Differences from published code: docs/methods/lotteryfl.md.
    """

    HP = HP
    uses_validation = True

    def init(self, fed: Federation) -> State:
        mask = torch.ones(fed.N, fed.D, dtype=torch.bool, device=fed.device)
        remaining = torch.ones(fed.N, dtype=torch.float64, device=fed.device)
        return super().init(fed) | {"mask": mask, "remaining": remaining}

    def round(self, state: State, fed: Federation) -> State:
        mask, remaining = state["mask"][fed.active], state["remaining"][fed.active]  # [K, D], [K]
        received = self.merge(state, fed, fed.down(state["theta"], mask & fed.communicated))
        received = torch.where(mask, received, 0.0)

        accurate = self.accuracy(fed, received) > self.hp.start
        prunes = accurate & (remaining > self.hp.target)  # [K]
        mask = mask & ~(prunes[:, None] & self.weakest(fed, received))
        remaining = torch.where(prunes, remaining * (1 - self.hp.share), remaining)

        rewinds = prunes[:, None] & fed.params.learnable
        start = torch.where(mask, torch.where(rewinds, fed.new_model(), received), 0.0)
        end = self.train_masked(fed, start, mask)
        sent = mask & fed.communicated
        held = fed.send_mask("up", sent, domain=fed.params.mask(fed.params.weights))
        theta = holders_mean(fed.up(end, sent), held, fed.weights, state["theta"])

        fed.log("remaining", remaining.mean())
        fed.log("pruned", prunes.double().mean())
        log_shares(fed, "active", mask)
        fed.count_mask("mask", mask)
        new = self.keep(state, fed, end) | {"theta": theta}
        new["mask"] = fed.scatter_rows(state["mask"], mask)
        new["remaining"] = fed.scatter_rows(state["remaining"], remaining)
        return new

    def accuracy(self, fed: Federation, params: Tensor) -> Tensor:
        """Return the share of its own samples that each client's model gets right  [K]."""
        correct, total = fed.count_correct(params, self.hp.judge)
        if self.hp.judge == "val" and not all(total):  # on the CPU
            on_train, samples = fed.count_correct(params, "train")
            correct = torch.where(total.to(fed.device) > 0, correct, on_train)
            total = torch.where(total > 0, total, samples)
        return correct.double() / total.to(fed.device).clamp(min=1)

    def weakest(self, fed: Federation, params: Tensor) -> Tensor:
        """Return the mask of the smallest among each weight tensor's non-zero entries  [K, D]."""
        weak = torch.zeros_like(params, dtype=torch.bool)
        for s in fed.params.weights:
            size = params[:, s.place].abs()
            weak[:, s.place] = size < masked_quantile(size, size > 0, self.hp.share)
        return weak

    def train_masked(self, fed: Federation, start: Tensor, mask: Tensor) -> Tensor:
        """Train with pruned weights frozen  [K, D]."""
        if self.hp.freeze == "mask":
            return fed.train(start, trainable=mask)
        prunable = {s.name for s in fed.params.weights}

        def step(client: Client, batch: Batch) -> None:
            w, grads = client.tensors(), client.grad(batch)
            client.update(
                {n: g * (w[n].abs() >= TINY) if n in prunable else g for n, g in grads.items()}
            )

        return fed.train(start, step=step)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return torch.where(state["mask"][fed.active], super().client_params(state, fed), 0.0)
