"""FedAP: average with clients whose features look alike; normalisation stays at home."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.core.ops import Mode

NEAREST = 1e-14
"""Feature distances below this count as this, so that identical clients have finite weights."""


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
        "feature maps compared: first BN layer's input and last one's output (code), or all BN"
        " layers' inputs",
        paper="MSPFL: ends",
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
    quick={"pretrain_epochs": 2},
    gate={"pretrain_epochs": 5},
)
class FedAP(Method[HP]):
    """Every client goes on with its own mixture of models: theta_i <- sum_j W_ij theta_j.
    Normalisation layers are local.

    W_ii = lam and W_ij = (1 - lam) (1 / d_ij) / sum_k (1 / d_ik), where d_ij adds up, over feature
    maps, the Wasserstein distance sqrt(|mu_i - mu_j|^2 + |sigma_i - sigma_j|^2) of channel
    statistics of the clients' training data under one pretrained model. That model serves the
    statistics only; training starts from the common initial model. The server keeps everybody's
    last upload, so an absent client takes part with what it sent last; one that never sent anything
    has no part.

    The code base that Star-PFL extends (MSPFL) pretrains on pooled data including test samples:
    `pool = all`. It averages unbiased variances of batches; here the variance is that of all
    samples. FL-bench's port, whose pretrained model visits the clients one after another and is
    where training starts, is not this method. A client without training samples mixes everybody
    equally and is mixed into nobody.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        own = fed.new_models()
        w = torch.where(self.shared(fed), fed.new_model(), own)  # [N, D]
        seen = torch.zeros(fed.N, dtype=torch.bool, device=fed.device)
        closeness = torch.zeros(fed.N, fed.N, dtype=torch.float64, device=fed.device)
        return {"w": w, "sent": w[:, self.shared(fed)], "seen": seen, "closeness": closeness}

    def shared(self, fed: Federation) -> Tensor:
        """All that is neither a normalisation parameter nor a statistic  [D] bool."""
        return fed.layout.learnable & ~fed.layout.norm

    def round(self, state: State, fed: Federation) -> State:
        shared = self.shared(fed)
        closeness = self.prepared(fed) if fed.round == 1 else state["closeness"]
        w, seen = state["w"], state["seen"].clone()
        end = fed.train(w[fed.active]).theta
        fed.up(end, shared)
        sent, seen[fed.active] = fed.put(state["sent"], end[:, shared]), True
        mixing = mixing_weights(closeness, seen, self.hp.lam)[fed.active].to(fed.dtype)  # [K, N]
        mixed = end.clone()
        mixed[:, shared] = mixing @ sent
        fed.down(mixed, shared)
        return {"w": fed.put(w, mixed), "sent": sent, "seen": seen, "closeness": closeness}

    def prepared(self, fed: Federation) -> Tensor:
        """One over the distance between any two clients' features under a pretrained model  [N, N]
        float64.
        """
        lone = fed.over([pooled(fed, self.hp.pretrain_share, self.hp.pool)])
        model = lone.train(
            lone.new_model()[None],
            epochs=self.hp.pretrain_epochs,
            stream="pretrain",
            lr=self.hp.pretrain_lr,
            momentum=0.0,
            weight_decay=0.0,
            clip=0.0,
        ).theta  # [1, D]
        with fed.among(fed.everybody):
            models = fed.down(model.expand(fed.N, -1), torch.ones_like(fed.exchanged))
            mean, spread, slices = feature_statistics(fed, models, self.hp.maps)
            fed.numbers("up", 2 * mean.shape[1])
        points = [torch.cat([mean[:, s], spread[:, s]], dim=1).double() for s in slices]
        distance = torch.stack(
            [torch.cdist(p, p, compute_mode="donot_use_mm_for_euclid_dist") for p in points]
        ).sum(0)
        held = fed.sizes > 0
        known = torch.where(
            held, 1 / distance.clamp(min=NEAREST), 0.0
        )  # nobody listens to a client without samples
        return torch.where(held[:, None], known, held.double()).fill_diagonal_(0)

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def offer(self, state: State, fed: Federation) -> Tensor:
        """The plain mean of what clients uploaded last: a newcomer has sent no statistics by which
        it could be compared. Normalisation is initial.
        """
        model = fed.new_model().clone()
        model[self.shared(fed)] = state["sent"][state["seen"]].mean(0)
        return model


def pooled(fed: Federation, share: float, pool: str) -> Tensor:
    """The first share of each class, in the order of the data set, of what the clients hold
    together  [n].
    """
    parts = [*fed.data.train, *fed.data.val, *fed.data.test] if pool == "all" else fed.data.train
    index = torch.cat(list(parts)).unique()
    labels = fed.data.labels[index].cpu()
    by_class = [index[labels == label] for label in range(fed.classes)]
    return torch.cat([own[: int(share * len(own))] for own in by_class])


def mixing_weights(closeness: Tensor, seen: Tensor, lam: float) -> Tensor:
    """Rows sum to one: lam for oneself, the rest for others that have sent something, by
    closeness  [N, N] float64.
    """
    others = torch.where(seen, closeness, 0.0)
    total = others.sum(1, keepdim=True)
    lonely = total[:, 0] == 0
    mixed = (1 - lam) * others / torch.where(lonely, 1.0, total[:, 0])[:, None]
    return mixed + torch.diag(torch.full_like(total[:, 0], lam).masked_fill(lonely, 1.0))


def feature_statistics(
    fed: Federation, models: Tensor, maps: str
) -> tuple[Tensor, Tensor, list[slice]]:
    """Channel means and deviations of feature maps over each active client's training data  [K, C]
    twice, and every map's place.
    """
    layers = [
        s.name.removesuffix(".mean")
        for s in fed.layout
        if s.kind == "stat" and s.name.endswith(".mean")
    ]
    wanted = (
        [(name, "input") for name in layers]
        if maps == "inputs"
        else [(layers[0], "input"), (layers[-1], "output")]
    )
    widths = [fed.layout[f"{name}.mean"].size for name, _ in wanted]
    stops = torch.tensor(widths).cumsum(0).tolist()

    @torch.no_grad()
    def step(local: Chunk, batch: Batch) -> None:
        found: dict[tuple[str, str], Tensor] = {}
        tap = lambda name, x, out: found.update({(name, "input"): x, (name, "output"): out})  # noqa: E731
        local.model.features(local.models["w"], batch.x, Mode(tap=tap))
        _merge(local.extras, [found[key].to(fed.dtype) for key in wanted], batch.valid)

    zeros = {"count": (fed.K, 1), "mean": (fed.K, stops[-1]), "moment": (fed.K, stops[-1])}
    extras = {
        name: torch.zeros(size, dtype=fed.dtype, device=fed.device) for name, size in zeros.items()
    }
    out = fed.visit(step, {"w": models}, extras=extras).extras
    variance = out["moment"] / out["count"].clamp(min=1)
    return (
        out["mean"],
        variance.sqrt(),
        [slice(stop - width, stop) for stop, width in zip(stops, widths, strict=True)],
    )


def _merge(sums: dict[str, Tensor], maps: list[Tensor], valid: Tensor | None) -> None:
    """Add one batch to running samples, means and sums of squared deviations (Chan et al.'s
    update).
    """
    real = (
        torch.ones_like(maps[0][:, :, 0, 0, 0]) if valid is None else valid.to(maps[0].dtype)
    )  # [K, B]
    samples = real.sum(1, keepdim=True)  # [K, 1]
    weight = real[:, :, None, None, None]
    means = [(m * weight).mean(dim=(3, 4)).sum(1) / samples for m in maps]
    pairs = zip(maps, means, strict=True)
    moment = torch.cat(
        [
            ((m - mean[:, None, :, None, None]) * weight).square().mean(dim=(3, 4)).sum(1)
            for m, mean in pairs
        ],
        dim=1,
    )
    mean = torch.cat(means, dim=1)
    total, gap = sums["count"] + samples, mean - sums["mean"]
    sums["moment"] = sums["moment"] + moment + gap.square() * sums["count"] * samples / total
    sums["mean"] = sums["mean"] + gap * samples / total
    sums["count"] = total
