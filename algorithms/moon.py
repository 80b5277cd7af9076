"""MOON: features are drawn towards the global model's and away from the last local model's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The contrastive loss."""

    mu: float = param(
        1.0, "weight of the contrastive loss", ge=0, paper="code 1", search={"log": [0.1, 10]}
    )
    tau: float = param(0.5, "temperature of the similarities", gt=0, paper="code 0.5")


@register(
    "moon",
    title="MOON",
    paper=(
        "Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021, arXiv 2103.16257; code:"
        " QinbinLi/MOON at 8fcba3c"
    ),
    year=2021,
    family="global",
    needs=("head",),
    sends="as FedAvg: the whole model down and up; last local models stay",
    cost=1.7,
)
class MOON(FedAvg[HP]):
    """FedAvg whose clients minimise, with z the features, v_i the model after client i's last
    training and w as received:

        CE - mu log(e^(cos(z, z_w) / tau) / (e^(cos(z, z_w) / tau) + e^(cos(z, z_v) / tau))).

    v_i starts as the initial model. Both other models are in evaluation mode and have no gradient.
    Differences from published code: docs/methods/moon.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        return super().init(fed) | {"last": fed.client_rows(fed.new_model()[None])}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        received = self.download(state, fed)  # [K, D]
        last = state.pop("last")
        models = {"received": received, "last": last[fed.active]}
        end = fed.train(received, loss=self.loss, models=models)
        return self.upload_and_average(state, fed, end) | {"last": fed.scatter_rows(last, end)}

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the cross-entropy and the contrastive loss."""
        z = model.features(batch.x)  # [B, F]
        with torch.no_grad():
            towards, away = (extras[m].eval().features(batch.x) for m in ("received", "last"))
        margin = F.cosine_similarity(z, away) - F.cosine_similarity(z, towards)  # [B]
        contrast = F.softplus(margin / self.hp.tau).mean()
        return F.cross_entropy(model.head(z), batch.y) + self.hp.mu * contrast
