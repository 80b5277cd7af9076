"""FedAvg, then every client fine-tunes the global model before it is scored."""

from __future__ import annotations

from typing import Literal

from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.core.partial_averaging import FineTuned


@hyperparameters
class HP:
    """Fine-tuning."""

    epochs: int | None = param(
        None,
        "epochs of fine-tuning; none: as many as a local round has",
        ge=0,
        paper="FedSelect: not stated",
        search={"one of": [1, 2, 5, 10]},
    )
    part: Literal["model", "head"] = param(
        "model", "what is fine-tuned", paper="FedRep's code: head, 10 epochs"
    )
    rate: float = param(
        1.0,
        "learning rate of fine-tuning, as a multiple of the protocol's in that round",
        gt=0,
        paper="not stated",
        added_later=True,
    )


@register(
    "fedavg-ft",
    title="FedAvg + FT",
    paper="McMahan et al., AISTATS 2017, with local fine-tuning, arXiv 1602.05629",
    year=2017,
    family="global",
    sends="as FedAvg; fine-tuning sends nothing",
    variants=("rate=0.1",),
)
class FedAvgFT(FineTuned[HP]):
    """FedAvg for all rounds; a copy of the final model is then trained on each client's own data
    and scored. Nothing flows back.
    """

    HP = HP
