"""kNN-Per: the global model is FedAvg's; every client also asks its own most similar samples."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.local_training import recalibrate_batch_norm
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.evaluate import Extras, Predictor
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math.features import training_features
from repfl.algorithms.math.gaussian import one_hot


@hyperparameters
class HP:
    """The neighbours, and how much they count."""

    neighbours: int = param(10, "neighbours that are asked", ge=1, search={"one of": [5, 10, 20]})
    weight: float = param(
        0.5, "weight of the neighbours' prediction", ge=0, le=1, search={"uniform": [0.0, 1.0]}
    )
    scale: float = param(
        1.0, "squared distance that counts little, per feature", gt=0, paper="code 1"
    )


@register(
    "knn-per",
    title="kNN-Per",
    paper=(
        "Marfoq et al., Personalized Federated Learning through Local Memorization, ICML 2022,"
        " arXiv 2111.09360; code: omarfoq/knn-per at ee17520"
    ),
    year=2022,
    family="mixture",
    needs=("head",),
    sends="as FedAvg: the whole model down and up; features of samples stay",
    variants=("neighbours=3",),
)
class KNNPer(FedAvg[HP]):
    """FedAvg. To classify x, a client takes the k of its training samples whose features z_j are
    nearest to x's features z, and mixes their labels with the model's probabilities:

        p(y) = weight sum_j s_j [y_j = y] / sum_j s_j + (1 - weight) softmax(logits)(y),
        s_j = exp(-|z - z_j|^2 / (F scale)),   F being the number of features.

    A client without samples has the model alone. What is scored is log p. Differences from
    published code: docs/methods/knn_per.md.
    """

    HP = HP

    def client_params(self, state: State, fed: Federation) -> Predictor:  # type: ignore[override]
        return self.predictor(fed, super().client_params(state, fed))

    def newcomer_params(self, state: State, fed: Federation) -> Predictor:
        """Take the global model as it is, and remember the client's samples."""
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        return self.predictor(fed, recalibrate_batch_norm(fed, start))

    def predictor(self, fed: Federation, params: Tensor) -> Predictor:
        """Return models [K, D] with the features and labels of their clients' training samples."""
        features, labels = training_features(fed, params)
        ones = torch.ones(fed.K, dtype=fed.dtype, device=fed.device)
        return Predictor(((ones, params),), self.predict, {"features": features, "labels": labels})

    def predict(self, model: ClientModel, x: Tensor, extras: Extras) -> Tensor:
        """Return the log-probabilities of one client's samples  [B, classes]."""
        z, held = model.features(x), extras["labels"] >= 0  # [B, F], [n]
        probabilities = model.head(z).softmax(1)
        nearest = squares(z, extras["features"]).where(held, torch.inf)
        nearest, index = nearest.topk(min(self.hp.neighbours, len(held)), largest=False)  # [B, k]
        similarity = (-nearest / (z.shape[1] * self.hp.scale)).exp()[:, :, None]
        labels = one_hot(extras["labels"][index], probabilities.shape[1], z.dtype)
        tiny = torch.finfo(z.dtype).tiny
        votes = (labels * similarity).sum(1) / similarity.sum(1).clamp(min=tiny)
        weight = self.hp.weight * held.any().to(z.dtype)
        return (weight * votes + (1 - weight) * probabilities).clamp(min=tiny).log()


def squares(one: Tensor, other: Tensor) -> Tensor:
    """Return all squared distances between rows  [B, F], [n, F] -> [B, n]."""
    norms = one.square().sum(1)[:, None] + other.square().sum(1)
    return (norms - 2 * one @ other.T).clamp(min=0)
