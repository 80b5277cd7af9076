"""FedRoD: a generic head for balanced classes, and a personal head on top of it."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import columns, write_columns
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The balanced loss."""

    gamma: float = param(
        1.0,
        "power of the class counts in the balanced softmax; 0: the ordinary cross-entropy",
        ge=0,
        search={"one of": [0.5, 1.0]},
    )


@register(
    "fedrod",
    title="FedRoD",
    paper=(
        "Chen and Chao, On Bridging Generic and Personalized Federated Learning for Image"
        " Classification, ICLR 2022, arXiv 2107.00778"
    ),
    year=2022,
    family="mixture",
    needs=("head",),
    sends="as FedAvg: the whole model down and up; personal heads stay",
    variants=("gamma=0.0",),
    cost=1.1,
)
class FedRoD(FedAvg[HP]):
    """FedAvg trains body and generic head g by the balanced softmax; every client's own head p_i
    learns what to add to the generic logits, without moving anything else:

        body, g <- SGD on CE(g(z) + gamma log n);   p_i <- SGD on CE(stop(g(z)) + p_i(stop(z))),

    on the same mini-batch, n being the client's class counts. Clients are scored with g + p_i.
    Differences from published code: docs/methods/fedrod.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        heads = columns(fed.first_models(), self.head(fed))
        return super().init(fed) | {"heads": fed.client_rows(heads)}  # [N, H]

    def round(self, state: State, fed: Federation) -> State:
        received = self.download(state, fed)  # [K, D]
        heads = state.pop("heads")
        end, personal = self.train(fed, received, heads[fed.active])
        fed.score("pre_agg", self.with_heads(fed, end, personal))
        new = self.upload_and_average(state, fed, end)
        return new | {"heads": fed.scatter_rows(heads, personal)}

    def train(
        self, fed: Federation, params: Tensor, heads: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """Train models [K, D] and personal heads [K, H]."""
        extras = {"head": heads, "counts": fed.class_counts.to(fed.dtype)}
        how: dict[str, Any] = {"loss": self.loss, "extras": extras, "learn": ("head",), **options}
        done = fed.train(params, keep=("extras",), **how)
        return done.params, done.extras["head"]

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the sum of both losses; no entry is moved by more than one of them."""
        z = model.features(batch.x)  # [B, F]
        generic, classes = model.head(z), len(extras["counts"])
        weight, bias = extras["head"].split([classes * z.shape[1], classes])
        personal = F.linear(z.detach(), weight.view(classes, -1), bias)
        balanced = generic + extras["counts"].pow(self.hp.gamma).log()
        return F.cross_entropy(balanced, batch.y) + F.cross_entropy(
            generic.detach() + personal, batch.y
        )

    # -- heads -------------------------------------------------------------------------------------

    def head(self, fed: Federation) -> list[slice]:
        """Return the columns of the head: its weight, then its bias."""
        return [s.place for s in fed.params if s.head]

    def with_heads(self, fed: Federation, params: Tensor, heads: Tensor) -> Tensor:
        """Return models [K, D] whose head is the sum of their own and of a personal one [K, H]."""
        both = columns(params, self.head(fed)) + heads
        return write_columns(params.clone(), self.head(fed), both)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return self.with_heads(fed, super().client_params(state, fed), state["heads"][fed.active])

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train the global model and a personal head on the client's samples."""
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        heads = columns(fed.new_model()[None], self.head(fed)).expand(fed.N, -1)
        return self.with_heads(fed, *self.train(fed, start, heads, stream="join"))
