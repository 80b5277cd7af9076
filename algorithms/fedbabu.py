"""FedBABU: train the body under a head that stays initial, and fine-tune at the end."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.params import columns
from repfl.algorithms.fedavg_ft import FedAvgFT


@hyperparameters
class HP:
    """Fine-tuning before a client is scored."""

    epochs: int | None = param(
        5,
        "epochs of fine-tuning; none: as many as a local round has",
        ge=0,
        paper="5; PFLlib: 10",
        search={"one of": [1, 2, 5, 10]},
    )
    part: Literal["model", "body", "head"] = param(
        "model", "what is fine-tuned", paper="model; body and head are ablations of the paper"
    )
    rate: float = param(
        1.0,
        "learning rate of fine-tuning, as a multiple of the protocol's in that round",
        gt=0,
        paper="0.01: 0.001 after training that began at 0.1",
        added_later=True,
    )


@register(
    "fedbabu",
    title="FedBABU",
    paper=(
        "Oh et al., FedBABU: Toward Enhanced Representation for Federated Image Classification,"
        " ICLR 2022, arXiv 2106.06042; code: jhoon-oh/FedBABU at e34c15b"
    ),
    year=2022,
    family="partial",
    needs=("head",),
    sends="the body down and up; the head comes once, with the initial model",
    variants=("epochs=0", "epochs=1", "part=body", "part=head", "rate=0.1"),
)
class FedBABU(FedAvgFT[HP]):
    """FedAvg on the body B alone; one random head H, the same for all, stays as it was initialised.

    B_i <- E epochs of SGD on B with H frozen;  B <- sum_i p_i B_i. A copy of (B, H) is then
    fine-tuned on each client's own data and scored; nothing flows back. Fine-tuning has the
    learning rate of the protocol in that round, times `rate`. H is excluded from the step, so
    neither momentum nor weight decay moves it. Differences from published code:
    docs/methods/fedbabu.md.
    """

    HP = HP

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated & fed.params.body

    def init(self, fed: Federation) -> State:
        state = super().init(fed)
        # one head for all clients, whatever the protocol says of initial values
        common = torch.where(fed.params.head, state["theta"], fed.first_models())
        return state | {"own": fed.client_rows(columns(common, self.personal_columns(fed)))}

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        return fed.train(params, trainable=fed.params.body)
