"""FedPer: a shared body, a head of one's own."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.core.partial_averaging import Newcomer, PartialAveraging


@hyperparameters
class HP:
    """Who a client is before it has taken part."""

    newcomer: Newcomer = param(
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
class FedPer(PartialAveraging[HP]):
    """FedAvg restricted to the body B; every client keeps its own head H_i, the last linear layer,
    and trains both jointly. The paper also tries deeper personal parts, which are not offered here.
    """

    HP = HP

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated & fed.params.body
