"""FedAvg, then every client fine-tunes the global model before it is scored."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial


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
class FedAvgFT(Partial[HP]):
    """FedAvg for all rounds; a copy of the final model is then trained on each client's own data
    and scored. Nothing flows back.
    """

    HP = HP
    trains_before_scoring = True

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged

    def round(self, state: State, fed: Federation) -> State:
        return self.average(state, fed, fed.train(self.received(state, fed)).theta)

    def tuned(self, models: Tensor, fed: Federation) -> Tensor:
        trainable = fed.layout.head if self.hp.part == "head" else None
        lr, epochs = fed.sgd.lr * self.hp.rate, self.hp.epochs
        return fed.train(models, epochs=epochs, trainable=trainable, stream="finetune", lr=lr).theta

    def join(self, state: State, fed: Federation) -> Tensor:
        """The global model, of which newcomers fine-tune what everybody does."""
        trainable = fed.layout.head if self.hp.part == "head" else None
        start = self.offer(state, fed).expand(fed.N, -1)
        lr = fed.sgd.lr * self.hp.rate
        return fed.train(start, trainable=trainable, stream="join", lr=lr).theta
