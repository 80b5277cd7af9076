"""FedPer: a shared body, a head of one's own."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial


@hyperparameters
class HP:
    """Who a client is before it has taken part."""

    newcomer: partial.Newcomer = param(
        "initial",
        "head of a client that never took part; `global` is the average of the heads (FL-bench)",
    )


@register(
    "fedper",
    title="FedPer",
    paper=(
        "Arivazhagan et al., Federated Learning with Personalization Layers, 2019, arXiv 1912.00818"
    ),
    year=2019,
    family="partial",
    needs=("head",),
    sends="the body down and up; heads stay",
)
class FedPer(Partial[HP]):
    """FedAvg restricted to the body B; every client keeps its own head H_i, the last linear layer,
    and trains both jointly. The paper also tries deeper personal parts, which are not offered here.
    """

    HP = HP

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged_body

    def round(self, state: State, fed: Federation) -> State:
        return self.average(state, fed, fed.train(self.received(state, fed)).theta)
