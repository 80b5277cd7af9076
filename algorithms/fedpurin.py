"""FedPURIN: upload nothing but critical parameters."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import critical
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


@hyperparameters
class HP:
    """What makes an entry critical, what is processed at all, and what non-critical entries
    become.
    """

    tau: float = param(
        0.5,
        "share of each tensor that is critical",
        ge=0,
        le=1,
        paper="0.5; Fig. 4: 0.2 to 0.6",
        search={"uniform": [0.2, 0.8]},
    )
    beta: int = param(
        100,
        "round after which critical entries stay private",
        ge=1,
        paper="100; CIFAR-100: 170",
        search={"log whole": [5, 200]},
    )
    gradient: Literal["exact", "delta"] = param(
        "exact",
        "g: gradient of the last mini-batch, or the change of this round",
        paper="Table 2 both; Table 1 exact",
    )
    hessian: bool = param(
        False, "add the diagonal second-order term to the score", paper="Table 2 both; Table 1 off"
    )
    bn: Literal["local", "masked", "full"] = param(
        "local",
        "normalisation parameters: never sent, masked like others, or sent whole",
        paper="Fig. 3; elsewhere local",
    )
    ends: bool = param(
        False, "first and last layer are critical as a whole (an unused switch of the code)"
    )
    cutoff: critical.Cutoff = param(
        "empty",
        "rule for tensors whose critical share would include entries of no effect",
        paper="text: empty; code: code",
    )
    grad_dtype: Literal["float16", "float32"] = param(
        "float16", "precision in which the gradient is kept", paper="code: float16; text: silent"
    )
    rest: Literal["global", "own"] = param(
        "global",
        "non-critical entries: the server's mean, or the client's own (code switch isLocal)",
    )


@register(
    "fedpurin",
    title="FedPURIN",
    paper=(
        "Xie et al., FedPURIN: Programmed Update and Reduced INformation for Sparse Personalized"
        " Federated Learning, arXiv 2510.16065; code: HikariX/FedPURIN at 2cefe0b"
    ),
    year=2025,
    family="mask",
    sends=(
        "up: critical entries and a bitmap; down: the combined model's non-zero entries (after"
        " beta: non-critical ones) and a bitmap"
    ),
    variants=(
        "gradient=delta",
        "hessian=true",
        "gradient=delta, hessian=true",
        "bn=masked, rest=own",
        "bn=full",
        "cutoff=code",
        "rest=own, ends=false",
        "ends=true",
    ),
    # Sparse values before max pooling make equal maxima, and rounding would choose among them.
    gate={"beta": 3, "ends": True},
)
class FedPURIN(Method[HP]):
    """Critical are entries without which the loss would change most: the top share tau of |g w| per
    tensor, g the last batch's gradient.

    Client i uploads s_i = m_i w_i, zeros elsewhere. The server forms g = sum p_i s_i and, with the
    clients whose masks overlap enough (as in FedCAC), d_i = mean of s_i and theirs; client i goes
    on with d_i on its critical entries and g elsewhere. Normalisation stays local. The reference
    code scores the sparsified model s_i, so that is `pre_agg` here; the trained model is scored as
    `dense`.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        own = fed.new_models()
        return {"w": torch.where(self.processed(fed), fed.new_model(), own)}  # [N, D]

    def processed(self, fed: Federation) -> Tensor:
        """The entries that masks are about  [D] bool."""
        return (
            fed.layout.learnable & ~fed.layout.norm
            if self.hp.bn == "local"
            else fed.layout.learnable
        )

    def round(self, state: State, fed: Federation) -> State:
        processed = self.processed(fed)
        start = state["w"][fed.active]
        trained = fed.train(start, keep=("last_grad",))
        mask = self.critical(
            fed,
            trained.theta,
            trained.last_grad if self.hp.gradient == "exact" else trained.theta - start,
        )
        sparse = torch.where(mask | ~processed, trained.theta, 0.0)
        fed.score("pre_agg", sparse)
        fed.score("dense", trained.theta)
        fed.up(sparse, mask, code="bitmap", domain=processed)
        partners = critical.collaborators(critical.overlaps(mask), fed.round / self.hp.beta)
        average = fed.mean(sparse)
        rest = average if self.hp.rest == "global" else trained.theta
        combined = torch.where(mask, critical.mixed(sparse, partners), rest)
        news = combined != 0 if fed.round <= self.hp.beta else (combined != 0) & ~mask
        if self.hp.rest == "own":  # the server has nothing to say about the rest
            news = news & mask
        fed.down(combined, news & processed, code="bitmap", domain=processed)
        self.record(fed, mask, average, partners, processed)
        return {"w": fed.put(state["w"], torch.where(processed, combined, trained.theta))}

    def critical(self, fed: Federation, theta: Tensor, grad: Tensor | None) -> Tensor:
        """Masks of critical entries  [K, D] bool."""
        assert grad is not None
        if self.hp.gradient == "exact" and self.hp.grad_dtype == "float16":
            grad = grad.half().to(theta.dtype)
        effect = grad * theta
        scores = (0.5 * effect.square() - effect).abs() if self.hp.hessian else effect.abs()
        processed = self.processed(fed)
        mask = critical.critical(
            fed.layout, scores, self.hp.tau, processed, self.hp.cutoff, floor=1e-10
        )
        whole = fed.layout.norm if self.hp.bn == "full" else torch.zeros_like(processed)
        if self.hp.ends:
            first = next(iter(fed.layout)).name
            whole = whole | fed.layout.head | fed.layout.where(name=first)
        return mask | (whole & processed)

    def record(
        self, fed: Federation, mask: Tensor, average: Tensor, partners: Tensor, processed: Tensor
    ) -> None:
        """How many entries are critical, how many partners a client has, how much of the average is
        alive.
        """
        size = processed.sum()
        fed.note("partners", partners.sum(1).float().mean())
        fed.note("critical", mask.sum() / (size * fed.K))
        fed.note("alive", ((average != 0) & processed).sum() / size)
        fed.tally("mask", mask)
        fed.tally("server", (average != 0) & processed)

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def offer(self, state: State, fed: Federation) -> Tensor:
        """The mean of what the server last sent to the clients; what it never sends is initial."""
        return torch.where(self.processed(fed), state["w"].mean(0), fed.new_model())
