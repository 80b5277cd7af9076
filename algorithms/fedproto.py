"""FedProto: clients exchange class prototypes, and no weights at all."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.math.class_stats import class_statistics


@hyperparameters
class HP:
    """How strongly features are drawn to the prototypes."""

    lam: float = param(
        1.0, "weight of the distance to the prototypes", ge=0, search={"log": [0.01, 10]}
    )


@register(
    "fedproto",
    title="FedProto",
    paper=(
        "Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI"
        " 2022, arXiv 2105.00243"
    ),
    year=2022,
    family="prototype",
    needs=("head",),
    sends="prototypes of the classes that a client has, up; those of all known classes, down",
    cost=1.2,
    version=2,
)
class FedProto(Method[HP]):
    """w_i <- SGD on CE + lam mean((f_i(x) - c_y)^2), for classes y that have a prototype c_y;
    c_y <- mean over the participants with class y of their mean features, after training.

    A class that no participant has keeps its prototype. The head predicts. Differences from
    published code: docs/methods/fedproto.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        prototypes = torch.zeros(fed.params.head_weight.shape, dtype=fed.dtype, device=fed.device)
        known = torch.zeros(fed.classes, dtype=torch.bool, device=fed.device)
        models = fed.client_rows(fed.first_models())  # [N, D]
        return {"w": models, "prototypes": prototypes, "known": known}

    def round(self, state: State, fed: Federation) -> State:
        known = state["known"]  # [classes]
        goals = fed.send("down", state["prototypes"], rows=known).expand(fed.K, -1, -1)
        extras = {"goals": goals, "known": known.to(fed.dtype).expand(fed.K, -1)}
        params = fed.train(state["w"][fed.active], loss=self.loss, extras=extras)

        own = class_statistics(fed, params)
        means = fed.send("up", own.means, rows=own.present)  # [K, classes, F]
        clients = own.present.sum(0)  # the bitmap of each message says who has a class
        mean = means.sum(0) / clients.clamp(min=1)[:, None]
        prototypes = torch.where((clients > 0)[:, None], mean, state["prototypes"])
        models = fed.scatter_rows(state["w"], params)
        return {"w": models, "prototypes": prototypes, "known": known | (clients > 0)}

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the cross-entropy and the distance of features to the prototypes."""
        features = model.features(batch.x)  # [B, F]
        distance = (features - extras["goals"][batch.y]).square().mean(1)  # [B]
        drawn = (distance * extras["known"][batch.y]).mean()
        return F.cross_entropy(model.head(features), batch.y) + self.hp.lam * drawn

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the initial model: no weights have travelled."""
        return fed.new_model()
