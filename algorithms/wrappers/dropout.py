"""Clients that cannot be reached: some of the cohort miss a round."""

from __future__ import annotations

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param
from repfl.algorithms.core.wrapper import Wrapper, wrapper


@hyperparameters
class HP:
    """How unreliable clients are."""

    dropout_share: float = param(
        0.2, "probability that a client of the cohort misses a round", ge=0, lt=1
    )


@wrapper(
    "dropout",
    title="drop-out",
    sends="clients that drop out send and receive nothing",
    messages_only=False,
)
class Dropout(Wrapper):
    """Every client of the cohort misses the round with probability p, by a draw of its own; at
    least one stays. Who is missing neither trains, nor sends, nor is scored after training.
    """

    HP: type = HP

    def round(self, state: State, fed: Federation) -> State:
        draws = {client: fed.rng("dropout", client).random() for client in fed.active_ids}
        last = max(draws, key=draws.__getitem__)
        stay = [c for c, draw in draws.items() if draw >= self.hp.dropout_share or c == last]
        cohort = fed.sampled
        fed.sampled = [client for client in cohort if client in stay]
        try:
            with fed.as_active(stay):
                return super().round(state, fed)  # type: ignore[safe-super]
        finally:
            fed.sampled = cohort
