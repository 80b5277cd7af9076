"""FedBN: normalisation layers stay at home."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, register
from repfl.algorithms.core.partial import Partial


@register(
    "fedbn",
    title="FedBN",
    paper=(
        "Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization,"
        " ICLR 2021, arXiv 2102.07623"
    ),
    year=2021,
    family="partial",
    needs=("bn",),
    sends="everything but normalisation layers, down and up",
)
class FedBN(Partial):
    """FedAvg restricted to everything outside normalisation layers; their affine parameters and
    statistics are each client's own.
    """

    def averaged(self, fed: Federation) -> Tensor:
        """All that is neither a normalisation parameter nor a statistic  [D] bool."""
        return fed.layout.learnable & ~fed.layout.norm

    def round(self, state: State, fed: Federation) -> State:
        return self.average(state, fed, fed.train(self.received(state, fed)).theta)
