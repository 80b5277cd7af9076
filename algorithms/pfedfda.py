"""pFedFDA: a shared representation, and per client a generative head that interpolates local and
global feature distributions.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import box, partial
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.gaussian import discriminant, folds, gaussian, member
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register

RARE = 2
"""A class with at most this many samples takes the global mean when a client is scored."""


@hyperparameters
class HP:
    """How far a client trusts its own statistics, and whose training is followed."""

    beta: Literal["two", "single", "local", "global"] = param(
        "two",
        "weights of local means and covariance: two or one by cross-validation, or all 1 (local) or"
        " 0 (global)",
        paper="two",
        search={"one of": ["two", "single"]},
    )
    eps: float = param(
        1e-4,
        "smoothing of class priors and shrinkage of covariances",
        ge=0,
        lt=1,
        paper=1e-4,
        search={"log": [1e-05, 0.01]},
    )
    compat: Literal["paper", "flbench"] = param(
        "paper",
        "`flbench` reproduces FedOBP's tables: plain FedAvg with a trained linear head; statistics"
        " are computed when everybody is scored, against global ones that keep their random initial"
        " values; participants are scored with the linear head before they train",
        paper="FedOBP's tables: flbench",
    )


@register(
    "pfedfda",
    title="pFedFDA",
    paper=(
        "McLaughlin and Su, Personalized Federated Learning via Feature Distribution Adaptation,"
        " NeurIPS 2024, arXiv 2411.00329; code: cj-mclaughlin/pFedFDA at 73c7c40"
    ),
    year=2024,
    family="mixture",
    needs=("head",),
    sends=(
        "body, class means and half of the covariance matrix down and up (compat=flbench: the whole"
        " model)"
    ),
    version=2,
    variants=("beta=single", "beta=local", "beta=global", "compat=flbench"),
    cost=2.2,
)
class PFedFDA(Method[HP]):
    """Features of class c are Gaussian, N(M_c, S), and the head is the classifier that follows from
    that.

    head(M, S, pi): S' = (1 - eps) S + eps tr(S) / F I;  W = M S'^-1;  bias_c = log pi_c - M_c W_c /
    2, pi_i being a client's class shares. Client i fixes the head at (M_g, S_g, pi_i), trains the
    body and keeps the features of all its batches. Their class means M_i (M_g for absent classes)
    and pooled covariance S_i (plus 1e-4 everywhere and the identity) are mixed with the global
    ones, M = b M_i + (1 - b) M_g and S likewise; the two b in [0, 1] minimise the cross-entropy of
    two-fold cross-validation. Body, M and S are averaged. Before it is scored, a client computes
    features of its training data and b, M, S and head anew; classes of at most two samples then
    take M_g.

    Deviations: b is minimised by projected BFGS on [0, 1]^2 with the code's start, iterations and
    tolerance (code: L-BFGS on clipped arguments); folds are dealt by this cell's own draw. The
    nearest-PSD projection of S_i is left out: its eigenvalues are at least one. The code's last
    round with everybody is a matter of the protocol. Its features at scoring leave out a client's
    last, short batch; here they are of all samples.
    """

    HP = HP

    def shared(self, fed: Federation) -> Tensor:
        """What is averaged entry by entry  [D] bool."""
        return fed.exchanged if self.hp.compat == "flbench" else fed.exchanged_body

    def init(self, fed: Federation) -> State:
        classes, width = fed.layout.head_weight.shape
        means = torch.from_numpy(fed.rng("means").random((classes, width))).to(
            fed.device, fed.dtype
        )
        cov = torch.eye(width, dtype=fed.dtype, device=fed.device)
        beta = torch.full((fed.N, 2), 0.5, dtype=fed.dtype, device=fed.device)
        return partial.init(fed, self.shared(fed)) | {"means": means, "cov": cov, "beta": beta}

    def round(self, state: State, fed: Federation) -> State:
        shared = self.shared(fed)
        start = partial.received(state, fed, shared)
        if self.hp.compat == "flbench":
            return state | partial.average(state, fed, fed.train(start).theta, shared)
        classes, width = fed.layout.head_weight.shape
        fed.numbers("down", classes * width + width * (width + 1) // 2)
        start = with_head(
            fed, start, *discriminant(state["means"], state["cov"], self.priors(fed), self.hp.eps)
        )
        most = max(len(own) for own in fed.data.train)  # of any cohort: a space of one size
        store = self.store(fed, most * fed.protocol.epochs)
        trained = fed.train(start, objective=self.watched, trainable=~fed.layout.head, extras=store)
        fed.numbers("up", classes * width + width * (width + 1) // 2)
        room = int(fed.n_train.amax()) * fed.protocol.epochs
        seen = {
            name: trained.extras[name][:, : room + 1].contiguous()
            for name in ("features", "labels")
        }
        means, cov, chosen = self.adapted(state, fed, seen, rare=0)
        beta = state["beta"].clone()
        beta[fed.active] = chosen
        fed.note("beta/means", chosen[:, 0].mean())
        fed.note("beta/cov", chosen[:, 1].mean())
        news = {
            "means": fed.mean(means.flatten(1)).view_as(state["means"]),
            "cov": fed.mean(cov.flatten(1)).view_as(state["cov"]),
        }
        return partial.average(state, fed, trained.theta, shared) | news | {"beta": beta}

    def personal(self, state: State, fed: Federation) -> Tensor:
        models = partial.models(state, fed, self.shared(fed))
        seen = fed.visit(
            self.look, {"w": models}, extras=self.store(fed, int(fed.n_train.amax()))
        ).extras
        means, cov, _ = self.adapted(state, fed, seen, rare=RARE)
        return with_head(fed, models, *discriminant(means, cov, self.priors(fed), self.hp.eps))

    def join(self, state: State, fed: Federation) -> Tensor:
        """Newcomers adapt means and covariance to their own samples, as all clients do before they
        are scored; no weight trains.
        """
        shared = self.shared(fed)
        models = partial.settled(fed, self.offer(state, fed).expand(fed.N, -1))
        received = {name: state[name] for name in ("theta", "means", "cov")}
        return self.personal(self.init(fed) | received | {"own": models[:, ~shared]}, fed)

    def arriving(self, state: State, fed: Federation) -> Tensor:
        return (
            partial.models(state, fed, self.shared(fed))
            if self.hp.compat == "flbench"
            else self.personal(state, fed)
        )

    # -- features ----------------------------------------------------------------------------------

    def store(self, fed: Federation, room: int) -> dict[str, Tensor]:
        """Space for features and labels of the active clients; one place more, for padding, whose
        contents do not matter.
        """
        features = torch.zeros(
            fed.K, room + 1, fed.layout.head_weight.shape[1], dtype=fed.dtype, device=fed.device
        )
        labels = torch.full(features.shape[:2], -1, device=fed.device)
        return {"features": features, "labels": labels, "stored": torch.zeros_like(fed.active)}

    def keep(self, local: Chunk, batch: Batch, features: Tensor) -> None:
        """Append the real samples of a batch to what is stored."""
        stored, last = local.extras["stored"], local.extras["labels"].shape[1] - 1
        place = stored[:, None] + torch.arange(batch.y.shape[1], device=stored.device)  # [K, B]
        place = place if batch.valid is None else torch.where(batch.valid, place, last)
        place = place.clamp(max=last)  # steps are tried out before the first, and want no room
        local.extras["features"].scatter_(
            1, place[:, :, None].expand_as(features), features.detach()
        )
        local.extras["labels"].scatter_(1, place, batch.y)
        count = batch.y.shape[1] if batch.valid is None else batch.valid.sum(1)
        local.extras["stored"] = stored + count

    def watched(self, local: Chunk, batch: Batch, params: Params) -> Tensor:
        """Cross-entropy, with an eye on the features  [K]."""
        features = local.model.features(params, batch.x, batch.mode)
        self.keep(local, batch, features)
        return entropy_of(local.model.head(params, features), batch)

    def look(self, local: Chunk, batch: Batch) -> None:
        with torch.no_grad():
            self.keep(local, batch, local.model.features(local.models["w"], batch.x, batch.still))

    # -- statistics --------------------------------------------------------------------------------

    def priors(self, fed: Federation) -> Tensor:
        """Smoothed class frequencies  [K, classes]."""
        share = (
            fed.data.class_counts[fed.active].to(fed.dtype) / fed.n_train.clamp(min=1)[:, None]
            + self.hp.eps
        )
        return share / share.sum(1, keepdim=True)

    def adapted(
        self, state: State, fed: Federation, seen: dict[str, Tensor], rare: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Mixed means [K, classes, F], mixed covariances [K, F, F], and the weights of the local
        parts [K, 2].
        """
        features, labels = seen["features"][:, :-1], seen["labels"][:, :-1]
        flbench = self.hp.compat == "flbench"
        means, cov = gaussian(
            features,
            member(labels, fed.classes, fed.dtype),
            state["means"],
            rare,
            centre_rare=flbench,
        )
        beta = self.weights(state, fed, features, labels)
        at, far = beta[:, :1, None], beta[:, 1:, None]
        return at * means + (1 - at) * state["means"], far * cov + (1 - far) * state["cov"], beta

    def weights(self, state: State, fed: Federation, features: Tensor, labels: Tensor) -> Tensor:
        """What the local statistics count, by cross-validation; nothing where folds are too
        small  [K, 2].
        """
        if self.hp.beta in ("local", "global"):
            return torch.full(
                (fed.K, 2), float(self.hp.beta == "local"), dtype=fed.dtype, device=fed.device
            )
        order = torch.from_numpy(fed.rng("folds").random(labels.shape[1]).argsort()).to(fed.device)
        fold = folds(labels, order, fed.classes)
        flbench = self.hp.compat == "flbench"
        fits = [
            gaussian(
                features,
                member(labels.where(fold == 1 - f, -1), fed.classes, fed.dtype),
                state["means"],
                RARE * flbench,
                flbench,
            )
            for f in (0, 1)
        ]
        means, cov = (
            torch.stack(parts, 1) for parts in zip(*fits, strict=True)
        )  # [K, 2, classes, F], [K, 2, F, F]
        prior, targets = self.priors(fed)[:, None], labels.clamp(min=0)[:, None].expand(-1, 2, -1)
        held_out = torch.stack([fold == f for f in (0, 1)], 1).to(fed.dtype)  # [K, 2, n]

        def losses(beta: Tensor) -> Tensor:
            at, far = beta[:, :1, None, None], beta[:, -1:, None, None]
            mixed = at * means + (1 - at) * state["means"], far * cov + (1 - far) * state["cov"]
            weight, bias = discriminant(*mixed, prior, self.hp.eps)
            logits = (
                features[:, None] @ weight.transpose(2, 3) + bias[:, :, None]
            )  # [K, 2, n, classes]
            entropy = F.cross_entropy(
                logits.flatten(0, 2), targets.flatten(), reduction="none"
            ).view_as(held_out)
            return ((entropy * held_out).sum(2) / held_out.sum(2).clamp(min=1)).sum(1)

        start = torch.full(
            (fed.K, 1 if self.hp.beta == "single" else 2), 0.5, dtype=fed.dtype, device=fed.device
        )
        found, value = box.minimise(losses, start)
        found = torch.where(
            torch.isfinite(value)[:, None], found.expand(-1, 2), state["beta"][fed.active]
        )
        return torch.where((held_out.sum(2).amin(1) >= 2)[:, None], found, 0.0)


def with_head(fed: Federation, models: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Models [K, D] with other heads  [(K,) classes, F], [K, classes]."""
    out, at, to = models.clone(), fed.layout.head_weight, fed.layout.head_bias
    out[:, at.start : at.stop] = weight.flatten(-2)
    out[:, to.start : to.stop] = bias
    return out
