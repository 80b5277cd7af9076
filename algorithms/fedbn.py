"""FedBN: normalisation layers stay at home."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, register


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
class FedBN(Method):
    """FedAvg restricted to everything outside normalisation layers; their affine parameters and
    statistics are each client's own.
    """

    def init(self, fed: Federation) -> State:
        return partial.init(fed, self.shared(fed))

    def shared(self, fed: Federation) -> Tensor:
        """All that is neither a normalisation parameter nor a statistic  [D] bool."""
        layout = fed.layout
        return fed.lasting("shared", lambda: layout.learnable & ~layout.norm)

    def round(self, state: State, fed: Federation) -> State:
        start = partial.received(state, fed, self.shared(fed))
        return partial.average(state, fed, fed.train(start).theta, self.shared(fed))

    def personal(self, state: State, fed: Federation) -> Tensor:
        return partial.models(state, fed, self.shared(fed))
