"""FedRep: learn a head for the shared body, then a body for the head."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedper import FedPer, Newcomer


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
        "epochs of the head; none: what the protocol's epochs leave, of one epoch nothing",
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
    newcomer: Newcomer = param(
        "initial",
        "head of a client that never took part; `global`: the average of the heads (both codes)",
    )


def relative_cost(hp: HP, epochs: float, samples: float) -> float:
    """An epoch of the head alone is a forward pass of the body: a third."""
    body = min(hp.body_epochs, epochs) if hp.head_epochs is None else hp.body_epochs
    head = epochs - body if hp.head_epochs is None else hp.head_epochs
    return (body + head / 3) / epochs


@register(
    "fedrep",
    title="FedRep",
    paper=(
        "Collins et al., Exploiting Shared Representations for Personalized Federated Learning,"
        " ICML 2021, arXiv 2102.07078; code: lgcollins/FedRep at d82e629"
    ),
    year=2021,
    family="partial",
    needs=("epochs", "head"),
    sends="the body down and up; heads stay",
    variants=("newcomer=global", "head_epochs=0", "final_epochs=10"),
    cost=relative_cost,
)
class FedRep(FedPer[HP]):
    """The body B is averaged, every client keeps its own head H_i, and the two never train
    together.

    H_i <- E_h epochs of SGD with B frozen;  B_i <- E_b epochs with H_i frozen;  B <- sum_i p_i B_i.
    The batch order runs on from one phase to the next and each phase has a fresh optimiser, so
    momentum and weight decay leave the frozen part alone. (The reference code spares biases from
    weight decay; here the protocol decays all entries.)
    """

    HP = HP

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        head_epochs, body_epochs = self.split_epochs(fed.epochs)
        params = fed.train(params, trainable=fed.params.head, epochs=head_epochs)
        return fed.train(
            params, trainable=fed.params.body, epochs=body_epochs, first_epoch=head_epochs
        )

    def split_epochs(self, epochs: int) -> tuple[int, int]:
        """Return the epochs of the head and of the body."""
        if self.hp.head_epochs is not None:
            return self.hp.head_epochs, self.hp.body_epochs
        body = min(self.hp.body_epochs, epochs)
        return epochs - body, body

    @property
    def personalizes(self) -> bool:
        return self.hp.final_epochs > 0

    def personalize(self, fed: Federation, params: Tensor) -> Tensor:
        head, epochs = fed.params.head, self.hp.final_epochs
        return fed.train(params, trainable=head, epochs=epochs, stream="finetune")

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train a head of the newcomer's own on the body, as in the paper's experiment."""
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        return fed.train(start, trainable=fed.params.head, stream="join")
