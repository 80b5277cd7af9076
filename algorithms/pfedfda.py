"""pFedFDA: a shared representation, and per client a generative head that interpolates local and
global feature distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.local_training import recalibrate_batch_norm
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import columns
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math import box_bfgs
from repfl.algorithms.math.features import padded, training_features
from repfl.algorithms.math.gaussian import discriminant, folds, gaussian, one_hot

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
        "`flbench` reproduces FedOBP's tables: plain FedAvg, whose clients compute statistics when"
        " they are scored (`FLBenchsPFedFDA`)",
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
    cost=1.5,
)
class PFedFDA(FedAvg[HP]):
    """Features of class c are Gaussian, N(M_c, S), and the head is the classifier that follows from
    that.

    head(M, S, pi): S' = (1 - eps) S + eps tr(S) / F I;  W = M S'^-1;  bias_c = log pi_c - M_c W_c /
    2, pi_i being a client's class shares. Client i fixes the head at (M_g, S_g, pi_i), trains the
    body and keeps the features of all its batches. Their class means M_i (M_g for absent classes)
    and pooled covariance S_i (plus 1e-4 everywhere and the identity) are mixed with the global
    ones, M = b M_i + (1 - b) M_g and S likewise; the two b in [0, 1] minimise the cross-entropy of
    two-fold cross-validation. Body, M and S are averaged. Before it is scored, a client computes
    features of its training data and from these b, M, S and head; classes of at most two samples
    then take M_g.

    Differences from published code: docs/methods/pfedfda.md.
    """

    HP = HP

    rare_in_folds = 0
    """A class with at most this many samples takes the global mean in cross-validation."""
    centre_rare = False
    """Whether samples of such a class are centred for the covariance."""

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        return FLBenchsPFedFDA if hp.compat == "flbench" else cls

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated & fed.params.body

    def init(self, fed: Federation) -> State:
        classes, width = fed.params.head_weight.shape
        means = torch.from_numpy(fed.rng("means").random((classes, width)))
        return super().init(fed) | {
            "means": means.to(fed.device, fed.dtype),
            "cov": torch.eye(width, dtype=fed.dtype, device=fed.device),
            "beta": torch.full((fed.N, 2), 0.5, dtype=fed.dtype, device=fed.device),
        }

    def round(self, state: State, fed: Federation) -> State:
        params = self.download(state, fed)
        width = len(state["cov"])
        half = width * (width + 1) // 2  # a covariance is symmetric
        means, cov = fed.send("down", state["means"]), fed.send("down", state["cov"], floats=half)
        received = state | {"means": means, "cov": cov}

        params = with_head(fed, params, means, cov, self.hp.eps)
        body = fed.params.body
        trained = fed.train(params, step=train_body, trainable=body, keep=("collected",))
        means, cov, beta = self.adapt(received, fed, *padded(fed, trained), rare=0)  # [K, ...]
        fed.log("beta/means", beta[:, 0].mean())
        fed.log("beta/cov", beta[:, 1].mean())

        means, cov = fed.send("up", means), fed.send("up", cov, floats=half)
        new = {
            "means": fed.mean(means),
            "cov": fed.mean(cov),
            "beta": fed.scatter_rows(state["beta"], beta),
        }
        return self.upload_and_average(state, fed, trained.params) | new

    def client_params(self, state: State, fed: Federation) -> Tensor:
        params = super().client_params(state, fed)
        means, cov, _ = self.adapt(state, fed, *training_features(fed, params), rare=RARE)
        return with_head(fed, params, means, cov, self.hp.eps)

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Adapt means and covariance to the newcomers' samples, as all clients do before they are
        scored; no weight trains.
        """
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        own = columns(recalibrate_batch_norm(fed, start), self.personal_columns(fed))
        received = {name: state[name] for name in ("theta", "means", "cov")}
        return self.client_params(self.init(fed) | received | {"own": own}, fed)

    def adapt(
        self, state: State, fed: Federation, features: Tensor, labels: Tensor, *, rare: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return mixed means [K, classes, F], mixed covariances [K, F, F], and the weights of the
        local parts [K, 2].
        """
        beta = self.local_weights(state, fed, features, labels)
        means, cov = self.statistics(state, fed, features, labels, rare)
        return *mix(state, means, cov, beta[:, :1, None], beta[:, 1:, None]), beta

    def statistics(
        self, state: State, fed: Federation, features: Tensor, labels: Tensor, rare: int
    ) -> tuple[Tensor, Tensor]:
        """Return the class means [K, classes, F] and the covariance [K, F, F] of some samples."""
        member = one_hot(labels, fed.classes, fed.dtype)
        return gaussian(features, member, state["means"], rare, centre_rare=self.centre_rare)

    def local_weights(
        self, state: State, fed: Federation, features: Tensor, labels: Tensor
    ) -> Tensor:
        """Return the weights of the local statistics, found by cross-validation; zero for folds
        that are too small  [K, 2].
        """
        if self.hp.beta in ("local", "global"):
            local = float(self.hp.beta == "local")
            return torch.full((fed.K, 2), local, dtype=fed.dtype, device=fed.device)
        order = torch.from_numpy(fed.rng("folds").random(labels.shape[1]).argsort())
        fold = folds(labels, order.to(fed.device), fed.classes)  # [K, n]
        fits = [
            self.statistics(
                state, fed, features, labels.where(fold == other, -1), self.rare_in_folds
            )
            for other in (1, 0)
        ]
        shape = (fed.K, 1 if self.hp.beta == "single" else 2)
        start = torch.full(shape, 0.5, dtype=fed.dtype, device=fed.device)
        losses = validation_losses(state, fed, features, labels, fold, fits, self.hp.eps)
        beta, value = box_bfgs.minimise(losses, start)
        finite = torch.isfinite(value)[:, None]
        beta = torch.where(finite, beta.expand(-1, 2), state["beta"][fed.active])
        sizes = torch.stack([(fold == f).sum(1) for f in (0, 1)], 1)  # [K, 2]
        return torch.where((sizes.amin(1) >= 2)[:, None], beta, 0.0)


class FLBenchsPFedFDA(PFedFDA):
    """FL-bench's: FedAvg with a trained linear head. Statistics are computed when clients are
    scored, against global ones that keep their random initial values; participants are scored with
    the linear head before they train.
    """

    scores_start = True
    rare_in_folds = RARE
    centre_rare = True

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated

    def round(self, state: State, fed: Federation) -> State:
        params = self.download(state, fed)
        fed.score("start", params)
        return state | self.upload_and_average(state, fed, fed.train(params))


def mix(
    state: State, means: Tensor, cov: Tensor, of_means: Tensor, of_cov: Tensor
) -> tuple[Tensor, Tensor]:
    """Return local means and covariances, mixed with the global ones at the given weights."""
    return (
        of_means * means + (1 - of_means) * state["means"],
        of_cov * cov + (1 - of_cov) * state["cov"],
    )


def validation_losses(
    state: State,
    fed: Federation,
    features: Tensor,
    labels: Tensor,
    fold: Tensor,
    fits: Sequence[tuple[Tensor, Tensor]],
    eps: float,
) -> box_bfgs.Losses:
    """Return the function of the weights [K, m] that is the cross-entropy of both folds, each under
    the head of its fit, which has seen the other fold  [K].
    """
    means, cov = (torch.stack(parts, 1) for parts in zip(*fits, strict=True))  # [K, 2, ...]
    prior, targets = priors(fed, eps)[:, None], labels.clamp(min=0)[:, None].expand(-1, 2, -1)
    held_out = torch.stack([fold == f for f in (0, 1)], 1).to(fed.dtype)  # [K, 2, n]

    def losses(beta: Tensor) -> Tensor:
        mixed = mix(state, means, cov, beta[:, :1, None, None], beta[:, -1:, None, None])
        weight, bias = discriminant(*mixed, prior, eps)
        logits = features[:, None] @ weight.mT + bias[:, :, None]  # [K, 2, n, classes]
        entropy = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
        entropy = entropy.view_as(held_out)
        return ((entropy * held_out).sum(2) / held_out.sum(2).clamp(min=1)).sum(1)

    return losses


# -- heads -----------------------------------------------------------------------------------------


def priors(fed: Federation, eps: float) -> Tensor:
    """Return smoothed class frequencies  [K, classes]."""
    counts = fed.class_counts.to(fed.dtype)
    share = counts / fed.n_train.clamp(min=1)[:, None] + eps
    return share / share.sum(1, keepdim=True)


def with_head(fed: Federation, params: Tensor, means: Tensor, cov: Tensor, eps: float) -> Tensor:
    """Return models [K, D] with the heads that follow from means [(K,) classes, F] and covariances
    [(K,) F, F].
    """
    weight, bias = discriminant(means, cov, priors(fed, eps), eps)
    params = params.clone()
    params[:, fed.params.head_weight.place] = weight.flatten(-2)
    params[:, fed.params.head_bias.place] = bias
    return params


def train_body(client: Client, batch: Batch) -> None:
    """Train on a batch and collect the features that the loss has seen."""
    grads, features = client.grad(batch, loss_and_features, has_aux=True)
    client.collect("features", features)
    client.collect("labels", batch.y)
    client.update(grads)


def loss_and_features(model: ClientModel, batch: Batch, extras: Extras) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy and the features of a batch."""
    features = model.features(batch.x)
    return F.cross_entropy(model.head(features), batch.y), features
