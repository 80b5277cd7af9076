"""APFL: every client mixes the global model with a model of its own, and learns how much of
each.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.evaluate import Mixture
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register

DRIFT = 0.02
"""The codes' extra slope of the mixing weight, per unit of it."""


@hyperparameters
class HP:
    """The mixing weight, and whose rules are followed."""

    alpha: float = param(
        0.5,
        "initial weight of a client's own model",
        ge=0,
        le=1,
        paper="FL-bench: 0.5",
        search={"uniform": [0.1, 0.9]},
    )
    alpha_epochs: int | None = param(
        None,
        "local epochs in which alpha adapts, in every batch; 0: it stays; none: in the first batch"
        " of a round alone, or through the first epoch under FL-bench's rules",
        ge=0,
        paper="authors' code: first batch; FL-bench: 1",
    )
    mode: Literal["paper", "flbench"] = param(
        "paper",
        "`flbench` reproduces FedOBP's tables: the global model steps twice per batch with one"
        " gradient, alpha's slope is taken from stale gradients, and, as in the authors' code,"
        " logits are mixed instead of parameters (the global ones as constants) and the slope"
        " carries 0.02 alpha more",
        paper="FedOBP's tables: flbench",
        spelled=("mode", "compat"),
    )


@register(
    "apfl",
    title="APFL",
    paper="Deng et al., Adaptive Personalized Federated Learning, 2020, arXiv 2003.13461",
    year=2020,
    family="mixture",
    sends="the whole model down and up; personal models and mixing weights stay",
    version=2,
    variants=("mode=flbench", "alpha_epochs=0", "alpha_epochs=1"),
    cost=2.2,
)
class APFL(Method[HP]):
    """Client i predicts with m = alpha_i v_i + (1 - alpha_i) w, w being the global model and v_i
    its own.

    For every batch, in this order:  w_i <- w_i - eta grad f(w_i);  v_i <- v_i - eta alpha_i grad
    f(m), m mixed with the new w_i. After the first batch of a round, as in the authors' code:
    alpha_i <- clip(alpha_i - eta <v_i - w_i, grad f(m)>, 0, 1) with the new v_i. The server
    averages the w_i as FedAvg does. Both models have an optimiser of their own. BN statistics are
    mixed like parameters; those of v_i follow the forward passes of m.

    PFLlib's APFL (TsingZ0/PFLlib at d832e76, flcore/clients/clientapfl.py) trains v_i by itself
    (50 to 54), adapts alpha in every batch from both gradients (56, 68 to 78), and after a round
    puts m in the place of v_i (58 to 59).
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        alpha = torch.full((fed.N,), self.hp.alpha, dtype=fed.dtype, device=fed.device)
        return partial.init(fed, fed.exchanged) | {
            "v": fed.new_models().clone(),
            "alpha": alpha,
        }  # [N, D], [N]

    def round(self, state: State, fed: Federation) -> State:
        start = partial.received(state, fed, fed.exchanged)
        extras = {"alpha": state["alpha"][fed.active], "left": self.adaptive_steps(fed)}
        step = self.step if self.hp.mode == "paper" else self.flbench_step
        models = {"w": start, "v": state["v"][fed.active]}
        done = fed.loop(step, models, extras=extras, same=self.hp.mode)
        v = fed.put(state.pop("v"), done.models["v"])
        alpha = fed.put(state.pop("alpha"), done.extras["alpha"])
        fed.score("pre_agg", self.mixture(done.models["v"], done.theta, done.extras["alpha"]))
        fed.note("alpha", alpha.mean())
        return partial.average(state, fed, done.theta, fed.exchanged) | {"v": v, "alpha": alpha}

    def adaptive_steps(self, fed: Federation) -> Tensor:
        """In how many steps of this round alpha adapts  [K]."""
        size, epochs = fed.protocol.batch, self.hp.alpha_epochs
        if epochs is None and self.hp.mode == "paper":
            return torch.ones_like(fed.n_train)
        epochs = 1 if epochs is None else epochs
        rest = fed.n_train % size
        return epochs * (fed.n_train // size + (rest > int(fed.protocol.skip_single)).long())

    # -- one batch ---------------------------------------------------------------------------------

    def step(self, local: Chunk, batch: Batch) -> None:
        local.sgd(local.grad(batch))
        w, v, alpha = local.models["w"], local.models["v"], local.extras["alpha"]
        local.models["m"] = {
            n: (
                across(alpha, v[n]) * v[n] + across(1 - alpha, w[n]) * w[n]
                if n in local.masks
                else v[n]
            )
            for n in v
        }
        grads = local.grad(batch, of="m")
        del local.models["m"]
        local.sgd({n: across(alpha, g) * g for n, g in grads.items()}, of="v")
        self.adapt(local, slope(local, grads))

    def flbench_step(self, local: Chunk, batch: Batch) -> None:
        stale = local.grad(batch)
        local.sgd(stale)
        grads = local.grad(batch, self.mixed_logits, of="v")
        local.sgd(stale)
        local.sgd(grads, of="v")
        alpha = local.extras["alpha"]
        both = {n: across(alpha, g) * g + across(1 - alpha, g) * stale[n] for n, g in grads.items()}
        self.adapt(local, slope(local, both) + DRIFT * alpha)

    def mixed_logits(self, local: Chunk, batch: Batch, own: Params) -> Tensor:
        """Cross-entropy of mixed predictions, the global model's being constants  [K]."""
        with torch.no_grad():
            fixed = local.model.logits(local.models["w"], batch.x, batch.mode)
        alpha = across(local.extras["alpha"], fixed)
        return entropy_of(
            alpha * local.model.logits(own, batch.x, batch.mode) + (1 - alpha) * fixed, batch
        )

    def adapt(self, local: Chunk, slopes: Tensor) -> None:
        """One gradient step of alpha, in the steps in which it adapts."""
        alpha, left = local.extras["alpha"], local.extras["left"]
        moved = (alpha - local.rate * slopes).clamp(0, 1)
        local.extras |= {"alpha": torch.where(left > 0, moved, alpha), "left": left - 1}

    # -- what is scored ----------------------------------------------------------------------------

    def mixture(self, v: Tensor, w: Tensor, alpha: Tensor) -> Tensor | Mixture:
        """The mixed models [K, D], or under FL-bench's rules mixed predictions."""
        if self.hp.mode == "flbench":
            return Mixture(((alpha, v), (1 - alpha, w)))
        return alpha[:, None] * v + (1 - alpha)[:, None] * w

    def join(self, state: State, fed: Federation) -> Tensor | Mixture:
        """A newcomer's own model starts as the global one and trains as those of participants do;
        what it is mixed with stays the global model.
        """
        theta = self.offer(state, fed).expand(fed.N, -1)
        alpha = torch.full((fed.N,), self.hp.alpha, dtype=fed.dtype, device=fed.device)
        extras = {"alpha": alpha, "left": self.adaptive_steps(fed)}
        step = self.step if self.hp.mode == "paper" else self.flbench_step
        models = {"w": theta, "v": theta}
        done = fed.loop(step, models, extras=extras, stream="join", same=self.hp.mode)
        w = torch.where(fed.exchanged, theta, done.theta)
        return self.mixture(done.models["v"], w, done.extras["alpha"])

    def personal(self, state: State, fed: Federation) -> Tensor | Mixture:
        return self.mixture(
            state["v"][fed.active],
            partial.models(state, fed, fed.exchanged),
            state["alpha"][fed.active],
        )


def across(value: Tensor, like: Tensor) -> Tensor:
    """A number per client, shaped to multiply a tensor with the client axis in front  [K] ->
    [K, 1, ...].
    """
    return value.view(-1, *[1] * (like.dim() - 1))


def slope(local: Chunk, grads: Params) -> Tensor:
    """Directional derivative <v - w, gradient>  [K]."""
    w, v = local.models["w"], local.models["v"]
    return torch.stack([((v[n] - w[n]) * g).flatten(1).sum(1) for n, g in grads.items()]).sum(0)
