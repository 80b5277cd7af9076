"""FedAP: average with clients whose features look alike; normalisation layers stay local."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.core.subfederations import subfederation
from repfl.algorithms.engine.params import Slice, columns, write_columns
from repfl.algorithms.math.channel_stats import Map, channel_statistics

MIN_DISTANCE = 1e-14
"""Smaller feature distances are raised to this, so that identical clients have finite weights."""


@hyperparameters
class HP:
    """The clients' similarity, and how it is found out."""

    lam: float = param(
        0.5,
        "weight of the client's own model",
        ge=0,
        le=1,
        paper="0.5; MSPFL's script: 0.3; Star-PFL: not stated",
        search={"uniform": [0.1, 0.9]},
    )
    pretrain_epochs: int = param(
        150, "epochs of the model whose features are compared", ge=0, paper="MSPFL: 150"
    )
    pretrain_lr: float = param(0.01, "its learning rate (plain SGD)", gt=0, paper="MSPFL: 0.01")
    pretrain_share: float = param(
        0.3, "its data: the first share of each class", ge=0, le=1, paper="MSPFL: 0.3"
    )
    pool: Literal["train", "all"] = param(
        "train",
        "where its data come from: training parts, or all that clients hold, test parts included"
        " (code)",
        paper="MSPFL: all",
    )
    maps: Literal["ends", "inputs"] = param(
        "ends",
        "feature maps compared: first BN layer's input and last one's output, or all BN layers'"
        " inputs",
        paper="MSPFL: ends for its LeNet-5, inputs for its other networks",
    )


@register(
    "fedap",
    title="FedAP",
    paper=(
        "Lu et al., Personalized Federated Learning with Adaptive Batchnorm for Healthcare, IEEE"
        " Transactions on Big Data 2022, arXiv 2112.00734; code: microsoft/PersonalizedFL at"
        " 441670e"
    ),
    year=2022,
    family="mixture",
    needs=("bn",),
    sends=(
        "up and down: everything but normalisation layers; in the first round also the pretrained"
        " model down and feature statistics up"
    ),
    variants=("lam=0.3", "pool=all", "maps=inputs"),
    fast_hp={"pretrain_epochs": 2},
    gate_hp={"pretrain_epochs": 5},
    cost=1.8,
)
class FedAP(Method[HP]):
    """Every client continues with its own mixture of models; normalisation layers are local.

    theta_i <- sum_j W_ij theta_j;  W_ii = lam,  W_ij = (1 - lam) (1 / d_ij) / sum_k (1 / d_ik).
    d_ij sums, over feature maps, the Wasserstein distance
    sqrt(|mu_i - mu_j|^2 + |sigma_i - sigma_j|^2) of the channel statistics of the clients' training
    data under one pretrained model. Training starts from the common initial model.

    The server keeps the last upload of every client, so an absent client is mixed with what it sent
    last; one that never sent anything has no part. A client without training samples mixes all
    others equally and is mixed into none. Differences from published code: docs/methods/fedap.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        w = torch.where(self.shared_mask(fed), fed.new_model(), fed.new_models())
        return {
            "w": w,  # [N, D]
            "sent": columns(w, self.shared_columns(fed)),  # [N, D']
            "seen": torch.zeros(fed.N, dtype=torch.bool, device=fed.device),
            "closeness": torch.zeros(fed.N, fed.N, dtype=torch.float64, device=fed.device),
        }

    def shared_tensors(self, fed: Federation) -> list[Slice]:
        """Return all tensors but those of normalisation layers."""
        return [s for s in fed.params if s.kind not in ("norm", "stat")]

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.params.mask(self.shared_tensors(fed))

    def shared_columns(self, fed: Federation) -> list[slice]:
        return [s.place for s in self.shared_tensors(fed)]

    def round(self, state: State, fed: Federation) -> State:
        shared, places = self.shared_mask(fed), self.shared_columns(fed)
        closeness = self.measure_closeness(fed) if fed.round == 1 else state["closeness"]
        params = fed.train(state["w"][fed.active])
        uploads = columns(fed.up(params, shared), places)
        sent = fed.scatter_rows(state["sent"], uploads)
        seen = state["seen"].index_fill(0, fed.active, value=True)
        mixing = mixing_weights(closeness, seen, self.hp.lam)[fed.active].to(fed.dtype)  # [K, N]
        mixed = write_columns(torch.zeros_like(params), places, mixing @ sent)
        params = torch.where(shared, fed.down(mixed, shared), params)
        w = fed.scatter_rows(state["w"], params)
        return {"w": w, "sent": sent, "seen": seen, "closeness": closeness}

    def measure_closeness(self, fed: Federation) -> Tensor:
        """Return one over the distance between any two clients' features  [N, N] float64."""
        model = self.pretrain(fed)
        with fed.as_active(range(fed.N)):
            models = fed.down(model, torch.ones_like(fed.communicated))
            statistics, widths = channel_statistics(fed, models, norm_maps(fed, self.hp.maps))
            mean, deviation = fed.send("up", statistics).double().chunk(2, dim=1)
            has_samples = fed.n_train > 0
        pairs = zip(mean.split(widths, 1), deviation.split(widths, 1), strict=True)
        points = [torch.cat(pair, dim=1) for pair in pairs]
        exact = "donot_use_mm_for_euclid_dist"
        distance = torch.stack([torch.cdist(p, p, compute_mode=exact) for p in points]).sum(0)
        closeness = torch.where(has_samples, 1 / distance.clamp(min=MIN_DISTANCE), 0.0)
        equal = has_samples.double().expand_as(closeness)
        return torch.where(has_samples[:, None], closeness, equal).fill_diagonal_(0)

    def pretrain(self, fed: Federation) -> Tensor:
        """Return the model whose features are compared  [D]."""
        pool = subfederation(fed, [pooled_samples(fed, self.hp.pretrain_share, self.hp.pool)])
        plain_sgd: dict[str, Any] = {
            "name": "SGD",
            "options": {},
            "momentum": 0.0,
            "weight_decay": 0.0,
            "clip": 0.0,
        }
        return pool.train(
            pool.new_model()[None],
            epochs=self.hp.pretrain_epochs,
            stream="pretrain",
            lr=self.hp.pretrain_lr,
            **plain_sgd,
        )[0]

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the plain mean of the last uploads, since a newcomer has sent no statistics;
        normalisation is initial.
        """
        seen = state["seen"].to(fed.dtype)
        mean = (seen / seen.sum()) @ state["sent"]
        initial = fed.new_model().clone()[None]
        return write_columns(initial, self.shared_columns(fed), mean[None])[0]


def pooled_samples(fed: Federation, share: float, pool: str) -> Tensor:
    """Return the first share of each class, in the order of the data set, of all that the clients
    have  [n].
    """
    parts = [*fed.data.train, *fed.data.val, *fed.data.test] if pool == "all" else fed.data.train
    index = torch.cat(list(parts)).unique()
    labels = fed.to_host(fed.data.labels)[index]
    by_class = [index[labels == label] for label in range(fed.classes)]
    return torch.cat([samples[: int(share * len(samples))] for samples in by_class])


def norm_maps(fed: Federation, maps: str) -> list[Map]:
    """Return the feature maps that are compared: before and after layers of batch norm."""
    suffix = ".running_mean"
    layers = [s.name.removesuffix(suffix) for s in fed.params if s.name.endswith(suffix)]
    if maps == "ends":
        return [(layers[0], "input"), (layers[-1], "output")]
    return [(name, "input") for name in layers]


def mixing_weights(closeness: Tensor, seen: Tensor, lam: float) -> Tensor:
    """Return weights whose rows sum to one: lam for the client itself, the rest by closeness for
    the others that have sent something  [N, N] float64.
    """
    others = torch.where(seen, closeness, 0.0)
    total = others.sum(1)
    alone = total == 0
    mixed = (1 - lam) * others / torch.where(alone, 1.0, total)[:, None]
    return mixed + torch.diag(torch.full_like(total, lam).masked_fill(alone, 1.0))
