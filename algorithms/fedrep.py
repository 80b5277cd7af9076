"""FedRep: learn a head for the shared body, then a body for the head."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.alternate import Phase, in_phases
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial


@hyperparameters
class HP:
    """How a round's epochs are divided, and what happens before a client is scored."""

    body_epochs: int = param(
        1,
        "epochs of the body, after those of the head",
        ge=0,
        paper="FedRep's scripts: 5; CIFAR-10 of two classes: 1; FL-bench: 1",
        search={"one of": [1, 2]},
    )
    head_epochs: int | None = param(
        None,
        "epochs of the head; none: what the protocol's epochs leave",
        ge=0,
        paper="FedRep's scripts: 10; FL-bench: the rest",
        search={"one of": [1, 2, 5, 10]},
    )
    final_epochs: int = param(
        0,
        "epochs of the head alone before scoring, never fed back",
        ge=0,
        paper="FedRep's code: max(10, head epochs)",
    )
    newcomer: partial.Newcomer = param(
        "initial",
        "head of a client that never took part; `global`: the average of the heads (both codes)",
    )


@register(
    "fedrep",
    title="FedRep",
    paper=(
        "Collins et al., Exploiting Shared Representations for Personalized Federated Learning,"
        " ICML 2021, arXiv 2102.07078; code: lgcollins/FedRep at d82e629"
    ),
    year=2021,
    family="partial",
    needs=("head",),
    sends="the body down and up; heads stay",
    variants=("newcomer=global", "head_epochs=0", "final_epochs=10"),
)
class FedRep(Partial[HP]):
    """The body B is averaged, every client keeps its own head H_i, and the two never train
    together.

    H_i <- E_h epochs of SGD with B frozen;  B_i <- E_b epochs with H_i frozen;  B <- sum_i p_i B_i.
    The batch order runs on from one phase to the next and each phase has a fresh optimiser, so
    momentum and weight decay leave the frozen part alone. (The reference code spares biases from
    weight decay; here the protocol decays all entries.)
    """

    HP = HP

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        self.trains_before_scoring = self.hp.final_epochs > 0

    def passes(self, epochs: int) -> tuple[int, int]:
        if self.hp.head_epochs is not None:
            return self.hp.body_epochs, self.hp.head_epochs
        body = min(self.hp.body_epochs, epochs)
        return body, epochs - body

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged_body

    def round(self, state: State, fed: Federation) -> State:
        body_epochs, head_epochs = self.passes(fed.protocol.epochs)
        phases = [Phase(fed.layout.head, head_epochs), Phase(~fed.layout.head, body_epochs)]
        return self.average(state, fed, in_phases(fed, self.received(state, fed), phases))

    def tuned(self, models: Tensor, fed: Federation) -> Tensor:
        head, epochs = fed.layout.head, self.hp.final_epochs
        return fed.train(models, epochs=epochs, trainable=head, stream="finetune").theta

    def join(self, state: State, fed: Federation) -> Tensor:
        """The body as it is, and under it a head of the newcomer's own, as in the paper's
        experiment with new clients.
        """
        start = self.offer(state, fed).expand(fed.N, -1)
        return fed.train(start, trainable=fed.layout.head, stream="join").theta
