"""LG-FedAvg: local representations, a global head."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.fedper import FedPer, Newcomer


@hyperparameters
class HP:
    """Which layers are shared."""

    shared: Literal["last", "first"] = param(
        "last",
        "which end of the network is shared; FL-bench shares the `first` layers, and so does LG's"
        " code on CIFAR",
        paper="text: last; FedOBP's tables: first",
    )
    layers: int = param(
        1,
        "how many layers are shared, each with its bias and normalisation",
        ge=0,
        paper="1; FedRep's and LG's codes: 2",
        search={"whole": [1, 2]},
    )
    newcomer: Newcomer = param(
        "initial", "local layers of a client that never took part; `global`: the average (FL-bench)"
    )


@register(
    "lg-fedavg",
    title="LG-FedAvg",
    paper=(
        "Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global"
        " Representations, 2020, arXiv 2001.01523; code: pliang279/LG-FedAvg at 7af0568"
    ),
    year=2020,
    family="partial",
    needs=("head",),
    sends="the shared layers down and up",
    variants=(
        "shared=first",
        "shared=first, newcomer=global",
        "layers=2",
        "shared=first, layers=2",
    ),
)
class LGFedAvg(FedPer[HP]):
    """FedAvg restricted to the upper layers G; every client keeps its own representation, the
    layers below, and trains all of them jointly.

    By its definition G is the head; `shared = first` shares the first layers instead, as FL-bench
    and FedOBP's tables do. Differences from published code: docs/methods/lg_fedavg.md.
    """

    HP = HP

    def shared_mask(self, fed: Federation) -> Tensor:
        layers, count = fed.params.layers, min(self.hp.layers, len(fed.params.layers))
        chosen = layers[:count] if self.hp.shared == "first" else layers[len(layers) - count :]
        return fed.communicated & fed.params.mask(s for layer in chosen for s in layer)
