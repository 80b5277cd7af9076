"""FedBN: normalisation layers stay at home."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import register
from repfl.algorithms.fedavg import FedAvg


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
class FedBN(FedAvg):
    """FedAvg restricted to everything outside normalisation layers; their affine parameters and
    statistics are each client's own.
    """

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.params.learnable & ~fed.params.norm
