"""FedAvg, then every client fine-tunes the global model before it is scored."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial_averaging import PartialAveraging


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
        exclude_if=lambda rate: rate == 1,  # cells from before it existed keep their ids
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
class FedAvgFT(PartialAveraging[HP]):
    """FedAvg for all rounds; a copy of the final model is then trained on each client's own data
    and scored. Nothing flows back.
    """

    HP = HP

    def personalize(self, fed: Federation, params: Tensor) -> Tensor:
        return self.fine_tune(fed, params, epochs=self.hp.epochs, stream="finetune")

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Fine-tune the global model on the newcomers' data."""
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        return self.fine_tune(fed, start, stream="join")

    def fine_tune(self, fed: Federation, params: Tensor, **options: Any) -> Tensor:
        """Train the model, or its head alone, at the fine-tuning rate  [K, D]."""
        part = fed.params.head if self.hp.part == "head" else None
        return fed.train(params, trainable=part, lr=fed.lr * self.hp.rate, **options)
