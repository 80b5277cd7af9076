"""LotteryFL: every client looks for its own winning ticket."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import masks, partial
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register

TINY = 1e-6
"""Below this the reference code takes a weight for a pruned one."""


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
    cost=1.9,
)
class LotteryFL(Method[HP]):
    """A client masks the global model with m_i; where that is accurate enough and more than
    `target` remains, it prunes and rewinds.

    Pruning: per weight tensor, entries below the `share` quantile of the non-zero magnitudes leave
    m_i for good. Rewinding: what remains, and everything that is never pruned (biases,
    normalisation), returns to the initial model. The client then trains with pruned weights frozen
    at zero. The server averages every entry over the clients that hold it, and leaves an entry
    without holders alone. Scored: the global model * m_i.

    The reference code averages uniformly; here the recipe's weights apply. It prunes BN weights
    like any other, in the one network of its that has some; here normalisation is never pruned, and
    its statistics follow the recipe. It judges by at most 80 test images, this method by all of the
    part. Its rewinding lets training overwrite the stored initial biases; here they stay.
    """

    HP = HP
    asks_validation = True

    def init(self, fed: Federation) -> State:
        mask = torch.ones(fed.N, fed.D, dtype=torch.bool, device=fed.device)
        remaining = torch.ones(fed.N, dtype=torch.float64, device=fed.device)
        return partial.init(fed, fed.exchanged) | {"mask": mask, "remaining": remaining}

    def round(self, state: State, fed: Federation) -> State:
        mask = state["mask"][fed.active]  # [K, D]
        received = torch.where(mask, partial.models(state, fed, fed.exchanged), 0.0)
        fed.down(received, mask & fed.exchanged)
        prunes = (self.accuracy(fed, received) > self.hp.start) & (
            state["remaining"][fed.active] > self.hp.target
        )  # [K]
        mask = torch.where(prunes[:, None], mask & ~self.weakest(fed, received), mask)
        rewound = torch.where(fed.layout.learnable, fed.new_model(), received)
        start = torch.where(mask, torch.where(prunes[:, None], rewound, received), 0.0)
        end = self.trained(fed, start, mask)
        sent = torch.where(mask, end, 0.0)
        fed.up(sent, mask & fed.exchanged, code="bitmap", domain=masks.weight_tensors(fed))
        theta = masks.holders_mean(sent, mask & fed.exchanged, fed.weights, state["theta"])
        return {
            "theta": theta,
            **partial.kept(state, fed, end, fed.exchanged),
            **self.masked(state, fed, mask, prunes),
        }

    def accuracy(self, fed: Federation, models: Tensor) -> Tensor:
        """Share of its own samples that each client's model gets right  [K]."""
        right, total = fed.correct(models, self.hp.judge)
        if self.hp.judge == "val" and not bool(total.all()):
            others, held = fed.correct(models, "train")
            right, total = (
                torch.where(total.to(right.device) > 0, right, others),
                torch.where(total > 0, total, held),
            )
        return right.double() / total.to(right.device).clamp(min=1)

    def weakest(self, fed: Federation, models: Tensor) -> Tensor:
        """The weights with the smallest magnitudes among each tensor's non-zero ones  [K, D]
        bool.
        """
        weak = torch.zeros(models.shape, dtype=torch.bool, device=fed.device)
        for place in fed.layout.tensors(masks.weight_tensors(fed)):
            size = models[:, place].abs()
            weak[:, place] = size < masks.quantile(size, size > 0, self.hp.share)
        return weak

    def trained(self, fed: Federation, start: Tensor, mask: Tensor) -> Tensor:
        """Local training with pruned weights frozen  [K, D]."""
        if self.hp.freeze == "mask":
            return fed.train(start, trainable=mask).theta
        pruned = {s.name for s in fed.layout if s.kind in ("conv", "linear")}

        def step(local: Chunk, batch: Batch) -> None:
            w = local.models["w"]
            local.sgd(
                {
                    name: g * (w[name].abs() >= TINY) if name in pruned else g
                    for name, g in local.grad(batch).items()
                }
            )

        fed.trained = fed.loop(step, {"w": start}, same="magnitude").theta
        return fed.trained

    def masked(self, state: State, fed: Federation, mask: Tensor, prunes: Tensor) -> State:
        """The masks and remaining shares after this round's pruning."""
        remaining = state["remaining"][fed.active]
        remaining = torch.where(prunes, remaining * (1 - self.hp.share), remaining)
        fed.note("remaining", remaining.mean())
        fed.note("pruned", prunes.double().mean())
        masks.note_shares(fed, "active", mask)
        fed.tally("mask", mask)
        return {
            "mask": fed.put(state["mask"], mask),
            "remaining": fed.put(state["remaining"], remaining),
        }

    def personal(self, state: State, fed: Federation) -> Tensor:
        return torch.where(
            state["mask"][fed.active], partial.models(state, fed, fed.exchanged), 0.0
        )
