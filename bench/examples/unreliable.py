"""FedAvg with unreliable clients: some are lost in a round, the others train as long as they can.

repfl run --grid GRID.toml --plugin bench/examples/unreliable.py --method unreliable
"""

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """How unreliable clients are."""

    lost: float = param(0.3, "probability that a client is lost after it got the model", ge=0, le=1)
    least: int = param(1, "epochs that a client trains at least; at most the recipe's", ge=0)


@register(
    "unreliable",
    title="FedAvg, unreliable clients",
    paper="none: an example",
    year=2026,
    family="global",
    needs=("epochs",),
    sends="down: FedAvg's; up: FedAvg's, from clients that are not lost",
)
class Unreliable(FedAvg[HP]):
    """A client of the cohort receives the model and is lost with probability p; else it trains for
    E_i epochs, uniform in {least, ..., E}, and uploads. The average is over those who upload.
    """

    HP = HP

    def round(self, state: State, fed: Federation) -> State:
        received = self.download(state, fed)  # [K, D]
        draws = [fed.rng("lost", client).random() for client in fed.active_ids]
        rows = [k for k, draw in enumerate(draws) if draw >= self.hp.lost]
        fed.log("uploads", len(rows))
        if not rows:
            return state
        with fed.as_active([fed.active_ids[k] for k in rows]):
            trained = self.local_update(fed, received[rows])
            return self.upload_and_average(state, fed, trained)

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        least = min(self.hp.least, fed.epochs)
        epochs = [int(fed.rng("epochs", c).integers(least, fed.epochs + 1)) for c in fed.active_ids]
        return fed.train(params, epochs=epochs)
