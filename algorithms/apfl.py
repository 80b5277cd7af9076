"""APFL: every client mixes the global model with a model of its own, and learns how much of
each.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras
from repfl.algorithms.engine.evaluate import Mixture
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import Tensors
from repfl.algorithms.fedavg import FedAvg

DRIFT = 0.02
"""Extra slope of the mixing weight in published code, per unit of it."""


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
        " gradient, alpha's slope is taken from stale gradients, logits are mixed instead of"
        " parameters (the global ones as constants), and the slope carries 0.02 alpha more",
        paper="FedOBP's tables: flbench",
        aliases=("mode", "compat"),
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
    cost=1.8,
)
class APFL(FedAvg[HP]):
    """Client i predicts with m = alpha_i v_i + (1 - alpha_i) w, w being the global model and v_i
    its own.

    For every batch, in this order:  w_i <- w_i - eta grad f(w_i);  v_i <- v_i - eta alpha_i grad
    f(m), m mixed with the new w_i. After the first batch of a round, as in the authors' code:
    alpha_i <- clip(alpha_i - eta <v_i - w_i, grad f(m)>, 0, 1) with the new v_i. The server
    averages the w_i as FedAvg does. Both models have an optimiser of their own. BN statistics are
    mixed like parameters; those of v_i follow the forward passes of m.

    Differences from published code: docs/methods/apfl.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        alpha = torch.full((fed.N,), self.hp.alpha, dtype=fed.dtype, device=fed.device)
        return super().init(fed) | {"v": fed.client_rows(fed.first_models()), "alpha": alpha}

    def round(self, state: State, fed: Federation) -> State:
        received = self.download(state, fed)
        w, v, alpha = self.train(fed, received, state["v"][fed.active], state["alpha"][fed.active])
        fed.score("pre_agg", self.mixture(v, w, alpha))
        new = {
            "v": fed.scatter_rows(state.pop("v"), v),
            "alpha": fed.scatter_rows(state.pop("alpha"), alpha),
        }
        fed.log("alpha", new["alpha"].mean())
        return self.upload_and_average(state, fed, w) | new

    def train(
        self, fed: Federation, w: Tensor, v: Tensor, alpha: Tensor, stream: str = "batches"
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Train global models w and personal ones v [K, D] with their mixing weights [K]."""
        trained = fed.train(
            {"params": w, "v": v},
            step=self.paper_step if self.hp.mode == "paper" else self.flbench_step,
            extras={"alpha": alpha, "left": self.adaptive_steps(fed)},
            stream=stream,
            keep=("models", "extras"),
        )
        return trained.params, trained.models["v"], trained.extras["alpha"]

    def adaptive_steps(self, fed: Federation) -> Tensor:
        """Return in how many steps of this round alpha adapts  [K]."""
        epochs = self.hp.alpha_epochs
        if epochs is None and self.hp.mode == "paper":
            return torch.ones_like(fed.n_train)
        return (1 if epochs is None else epochs) * fed.steps_per_epoch

    # -- one batch ---------------------------------------------------------------------------------

    def paper_step(self, client: Client, batch: Batch) -> None:
        """Train w, then v with the gradient at the mixture of both."""
        client.update(client.grad(batch))
        w, v, alpha = client.tensors(), client.tensors("v"), client.extras["alpha"]
        client.state["params/mixed"] = {
            n: alpha * v[n] + (1 - alpha) * w[n] if n in client.masks else v[n] for n in v
        }
        grads = client.grad(batch, of="mixed")
        del client.state["params/mixed"]
        client.update({n: alpha * g for n, g in grads.items()}, of="v")
        self.adapt(client, slope(client, grads))

    def flbench_step(self, client: Client, batch: Batch) -> None:
        """Take two steps of w with one gradient, and one of v with the loss of mixed logits."""
        stale = client.grad(batch)
        client.update(stale)
        grads = client.grad(batch, mixed_logits_loss, of="v")
        client.update(stale)
        client.update(grads, of="v")
        alpha = client.extras["alpha"]
        both = {n: alpha * g + (1 - alpha) * stale[n] for n, g in grads.items()}
        self.adapt(client, slope(client, both) + DRIFT * alpha)

    def adapt(self, client: Client, slope: Tensor) -> None:
        """Take one gradient step of alpha, if it adapts in this step."""
        alpha, left = client.extras["alpha"], client.extras["left"]
        moved = (alpha - client.lr * slope).clamp(0, 1)
        client.extras.update(alpha=torch.where(left > 0, moved, alpha), left=left - 1)

    # -- what is scored ----------------------------------------------------------------------------

    def mixture(self, v: Tensor, w: Tensor, alpha: Tensor) -> Tensor | Mixture:
        """Return the mixed models [K, D], or under FL-bench's rules mixed predictions."""
        if self.hp.mode == "flbench":
            return Mixture(((alpha, v), (1 - alpha, w)))
        return alpha[:, None] * v + (1 - alpha)[:, None] * w

    def client_params(self, state: State, fed: Federation) -> Tensor | Mixture:  # type: ignore[override]
        w = super().client_params(state, fed)
        return self.mixture(state["v"][fed.active], w, state["alpha"][fed.active])

    def newcomer_params(self, state: State, fed: Federation) -> Tensor | Mixture:
        """Train an own model that starts as the global one; it is mixed with the global model
        itself.
        """
        theta = self.newcomer_init(state, fed).expand(fed.N, -1)
        alpha = torch.full((fed.N,), self.hp.alpha, dtype=fed.dtype, device=fed.device)
        w, v, alpha = self.train(fed, theta, theta, alpha, stream="join")
        return self.mixture(v, torch.where(fed.communicated, theta, w), alpha)


def mixed_logits_loss(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
    """Return the cross-entropy of mixed predictions, the global model's being constants."""
    with torch.no_grad():
        fixed = extras["params"](batch.x)
    alpha = extras["alpha"]
    return F.cross_entropy(alpha * model(batch.x) + (1 - alpha) * fixed, batch.y)


def slope(client: Client, grads: Tensors) -> Tensor:
    """Return the directional derivative <v - w, gradient>."""
    w, v = client.tensors(), client.tensors("v")
    return torch.stack([((v[n] - w[n]) * g).flatten().sum() for n, g in grads.items()]).sum()
