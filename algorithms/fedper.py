"""FedPer: a shared body, a head of one's own."""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg

Newcomer = Literal["initial", "global"]
"""What a client that never took part has in place of personal entries: its initial values, or the
average of those that took part last, for which these are communicated as well (FL-bench).
Batch-norm statistics that stay with clients are initial in either case.
"""


class HasNewcomer(Protocol):
    """Hyper-parameters of a method with personal layers."""

    @property
    def newcomer(self) -> Newcomer: ...


Personal = TypeVar("Personal", bound=HasNewcomer)


@hyperparameters
class HP:
    """What a client has before it takes part."""

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
class FedPer(FedAvg[Personal]):
    """FedAvg restricted to the body B; every client keeps its own head H_i, the last linear layer,
    and trains both jointly. The paper also tries deeper personal parts, which are not offered here.
    """

    HP: type = HP

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated & fed.params.body

    # -- FL-bench: a client's first personal layers are the average ones ---------------------------

    def download(self, state: State, fed: Federation) -> Tensor:
        new = self.shared_mask(fed)
        if self.hp.newcomer == "global":
            new = new | self.missing(state, fed)
        return self.merge(state, fed, fed.down(state["theta"], new))

    def merge(self, state: State, fed: Federation, received: Tensor) -> Tensor:
        models = super().merge(state, fed, received)
        if self.hp.newcomer == "global":
            return torch.where(self.missing(state, fed), received, models)
        return models

    def uploaded_mask(self, fed: Federation) -> Tensor:
        return fed.communicated if self.hp.newcomer == "global" else self.shared_mask(fed)

    def missing(self, state: State, fed: Federation) -> Tensor:
        """Return what clients without a past lack  [K, D] bool."""
        return ~state["seen"][fed.active, None] & fed.communicated
