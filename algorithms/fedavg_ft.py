"""FedAvg, then every client fine-tunes the global model before it is scored."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg


class FineTuning(Protocol):
    """Hyper-parameters of fine-tuning; `rate` is a multiple of the protocol's learning rate."""

    @property
    def epochs(self) -> int | None: ...
    @property
    def part(self) -> Literal["model", "body", "head"]: ...
    @property
    def rate(self) -> float: ...


Tuned = TypeVar("Tuned", bound=FineTuning)


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
class FedAvgFT(FedAvg[Tuned]):
    """FedAvg for all rounds; a copy of the final model is then trained on each client's own data
    and scored. Nothing flows back.
    """

    HP: type = HP

    def personalize(self, fed: Federation, params: Tensor) -> Tensor:
        return self.fine_tune(fed, params, epochs=self.hp.epochs, stream="finetune")

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Fine-tune what unseen clients start from, for as long as they may train."""
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        return self.fine_tune(fed, start, stream="join")

    def fine_tune(self, fed: Federation, params: Tensor, **options: Any) -> Tensor:
        """Train what `part` names at the fine-tuning rate  [K, D]."""
        parts = {"model": None, "body": fed.params.body, "head": fed.params.head}
        return fed.train(params, trainable=parts[self.hp.part], lr=fed.lr * self.hp.rate, **options)
