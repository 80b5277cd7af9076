"""FedPURIN: upload nothing but critical parameters."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.params import Slice
from repfl.algorithms.math.critical import Cutoff, average_with, collaborators, critical, overlaps


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
    cutoff: Cutoff = param(
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
    gate_hp={"beta": 3, "ends": True},
)
class FedPURIN(Method[HP]):
    """Critical are entries without which the loss would change most: the top share tau of |g w| per
    tensor, g being the last batch's gradient.

    Client i uploads s_i = m_i w_i, zeros elsewhere. The server forms g = sum_i p_i s_i and, with
    the clients whose masks overlap enough (as in FedCAC), d_i = mean of s_i and theirs.
    w_i <- d_i on the client's critical entries, g elsewhere; after round beta its own instead of
    d_i. Normalisation stays local. Scored as `pre_agg`: the sparsified model s_i; as `dense`: the
    trained one. Differences from published code: paper_tables/fedpurin/README.md.
    """

    HP = HP

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        return CodesFedPURIN if hp.ends or hp.rest == "own" else cls

    def init(self, fed: Federation) -> State:
        first = torch.where(self.processed(fed), fed.new_model(), fed.first_models())
        return {"w": fed.client_rows(first)}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        processed = self.processed(fed)
        start = state["w"][fed.active]
        done = fed.train(start, keep=("last_grad",))
        trained = done.params
        exact = self.hp.gradient == "exact"
        mask = self.critical(fed, trained, done.last_grad if exact else trained - start)  # [K, D]
        sparse = torch.where(mask | ~processed, trained, 0.0)
        fed.score("pre_agg", sparse)
        fed.score("dense", trained)

        uploaded = fed.up(sparse, mask)
        masks = fed.send_mask("up", mask, domain=processed)
        average = fed.mean(uploaded)
        partners = collaborators(overlaps(masks), fed.round / self.hp.beta)
        combined = torch.where(masks, average_with(partners, uploaded), average)
        returned = (combined != 0) & processed & ~self.private(fed, masks)
        received = fed.down(combined, returned, code="bitmap", domain=processed)

        self.record(fed, mask, average, partners)
        new = torch.where(processed & ~self.private(fed, mask), received, trained)
        return {"w": fed.scatter_rows(state["w"], new)}

    def tensors(self, fed: Federation) -> list[Slice]:
        """Return the tensors that masks are about."""
        return [s for s in fed.params.trained if self.hp.bn != "local" or s.kind != "norm"]

    def processed(self, fed: Federation) -> Tensor:
        """Return the mask of their entries  [D] bool."""
        return fed.params.mask(self.tensors(fed))

    def critical(self, fed: Federation, params: Tensor, grad: Tensor | None) -> Tensor:
        """Return the mask of critical entries  [K, D] bool."""
        assert grad is not None
        if self.hp.gradient == "exact" and self.hp.grad_dtype == "float16":
            grad = grad.half().to(params.dtype)
        effect = grad * params
        scores = (0.5 * effect.square() - effect).abs() if self.hp.hessian else effect.abs()
        tensors = self.tensors(fed)
        mask = critical(scores, self.hp.tau, tensors, self.hp.cutoff, floor=1e-10)
        norms = [s for s in tensors if self.hp.bn == "full" and s.kind == "norm"]
        return mask | fed.params.mask(norms)

    def private(self, fed: Federation, mask: Tensor) -> Tensor:
        """Return which entries a client does not take from the server  [K, D] bool."""
        return torch.full_like(mask, fed.round > self.hp.beta) & mask

    def record(self, fed: Federation, mask: Tensor, average: Tensor, partners: Tensor) -> None:
        """Log how many entries are critical, how many partners a client has, and how much of the
        average is not zero.
        """
        processed = self.processed(fed)
        size = sum(s.size for s in self.tensors(fed))
        alive = (average != 0) & processed
        fed.log("partners", partners.sum(1).float().mean())
        fed.log("critical", mask.sum() / (size * fed.K))
        fed.log("alive", alive.sum() / size)
        fed.count_mask("mask", mask)
        fed.count_mask("server", alive)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the mean of what the server last sent to the clients; what it never sends is
        initial.
        """
        return torch.where(self.processed(fed), state["w"].mean(0), fed.new_model())


class CodesFedPURIN(FedPURIN):
    """With the switches of the published code that the paper does not have."""

    def critical(self, fed: Federation, params: Tensor, grad: Tensor | None) -> Tensor:
        mask = super().critical(fed, params, grad)
        if not self.hp.ends:
            return mask
        tensors = self.tensors(fed)
        return mask | fed.params.mask(s for s in tensors if s.head or s is fed.params.slices[0])

    def private(self, fed: Federation, mask: Tensor) -> Tensor:
        after = super().private(fed, mask)
        return after | ~mask if self.hp.rest == "own" else after
