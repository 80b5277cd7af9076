"""FedAvg: average what clients have learned."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, register
from repfl.algorithms.core.partial_averaging import PartialAveraging, recalibrate_batch_norm


@register(
    "fedavg",
    title="FedAvg",
    paper=(
        "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized"
        " Data, AISTATS 2017, arXiv 1602.05629"
    ),
    year=2017,
    family="global",
    sends="the whole model down and up; BN statistics only where the recipe averages them",
)
class FedAvg(PartialAveraging):
    """Every client starts from one model; the server averages what comes back, weighted as the
    recipe says.

    w_i <- E epochs of SGD from w;  w <- sum_i p_i w_i. Where BN statistics are local
    (`buffers = local`), each client keeps its own.

    Differences from published code: docs/methods/fedavg.md.
    """

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Return the global model as it is, since no client personalises it."""
        return recalibrate_batch_norm(fed, self.newcomer_init(state, fed).expand(fed.N, -1))
