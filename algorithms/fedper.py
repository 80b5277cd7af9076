"""FedPer: a shared body, a head of one's own."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


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
class FedPer(Method[HP]):
    """FedAvg restricted to the body B; every client keeps its own head H_i, the last linear layer,
    and trains both jointly. The paper also tries deeper personal parts, which are not offered here.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        return partial.init(fed, fed.exchanged_body)

    def round(self, state: State, fed: Federation) -> State:
        body = fed.exchanged_body
        start = partial.received(state, fed, body, self.hp.newcomer)
        return partial.average(state, fed, fed.train(start).theta, body, self.hp.newcomer)

    def personal(self, state: State, fed: Federation) -> Tensor:
        return partial.models(state, fed, fed.exchanged_body, self.hp.newcomer)
