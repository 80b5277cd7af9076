"""Averaging some coordinates and keeping the others: what FedAvg, FedPer, FedBN and the like have
in common, as a class for methods that do nothing else, and as functions for those that do.

State: `theta` [D] holds the averaged coordinates, `own` [N, D'] every client's remaining ones,
`seen` [N] who took part already.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor

from repfl.algorithms.core.evaluate import Models, Overlay
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Chosen, Method, State

Newcomer = Literal["initial", "global"]
"""What a client that never took part has in place of personal entries: its initial values, or the
average of those that took part last, for which these travel as well (FL-bench). BN statistics that
stay with clients are initial either way.
"""


class Partial(Method[Chosen]):
    """A method that averages some coordinates of a model; the others are each client's own. A
    hyper-parameter `newcomer`, if it has one, says what these begin with.
    """

    def averaged(self, fed: Federation) -> Tensor:
        """What is averaged, the same in every round  [D] bool."""
        raise NotImplementedError

    def shared(self, fed: Federation) -> Tensor:
        """The same, made once: what is known of a mask that lasts is not asked again."""
        return fed.lasting(self, lambda: self.averaged(fed))

    @property
    def newcomer(self) -> Newcomer:
        """What a client that never took part has in place of its own entries."""
        return cast(Newcomer, getattr(self.hp, "newcomer", "initial"))

    def init(self, fed: Federation) -> State:
        return init(fed, self.shared(fed))

    def received(self, state: State, fed: Federation) -> Tensor:
        """The active clients' models, after the server has sent what is new to them  [K, D]."""
        return received(state, fed, self.shared(fed), self.newcomer)

    def average(self, state: State, fed: Federation, end: Tensor) -> State:
        """The state after models [K, D] were trained."""
        return average(state, fed, end, self.shared(fed), self.newcomer)

    def tuned(self, models: Tensor, fed: Federation) -> Tensor:
        """What clients make of their models [K, D] before these are scored, where they train
        then.
        """
        return models

    def personal(self, state: State, fed: Federation) -> Tensor:
        own = models(state, fed, self.shared(fed), self.newcomer)
        return self.tuned(own, fed) if self.trains_before_scoring else own

    def for_scoring(self, state: State, fed: Federation) -> Models:
        shared, runs = self.shared(fed), fed.layout.outside(self.shared(fed))
        others = type(self).personal is not Partial.personal  # of a class that says so itself
        copied = others or self.trains_before_scoring or fed.chunk > 1
        if copied or not runs or not fed.layout.whole(runs):
            return self.personal(state, fed)
        return Overlay(state["theta"], _own(state, fed, shared, self.newcomer), runs)


def init(fed: Federation, shared: Tensor) -> State:
    """Shared entries start equal; the rest as the protocol says."""
    own = _rest(fed, fed.new_models(), shared).contiguous()
    return {
        "theta": fed.new_model(),
        "own": own,
        "seen": torch.zeros(fed.N, dtype=torch.bool, device=fed.device),
    }


def models(state: State, fed: Federation, shared: Tensor, newcomer: Newcomer = "initial") -> Tensor:
    """The active clients' models: shared entries from the server, the rest their own  [K, D]."""
    everyone = state["theta"].expand(fed.K, -1)
    if not state["own"].shape[1]:
        return everyone
    kept, runs = _own(state, fed, shared, newcomer), fed.layout.outside(shared)
    if runs is not None:
        return Overlay(state["theta"], kept, runs).models
    out = everyone.clone()
    out[:, ~shared] = kept
    return out


def _own(state: State, fed: Federation, shared: Tensor, newcomer: Newcomer) -> Tensor:
    """What is the active clients' own  [K, D']."""
    kept = state["own"][fed.active]
    if newcomer == "initial":
        return kept
    lacking, theta = _lacking(state, fed), state["theta"][None]
    return torch.where(_rest(fed, lacking, shared), _rest(fed, theta, shared), kept)


def _rest(fed: Federation, rows: Tensor, shared: Tensor) -> Tensor:
    """What is not shared of rows [K, D]  [K, D']."""
    runs = fed.layout.outside(shared)
    if runs is None:
        return rows[:, ~shared]
    return torch.cat([rows[:, run] for run in runs], 1) if runs else rows[:, :0]


def _lacking(state: State, fed: Federation) -> Tensor:
    """What may travel to clients that never took part  [K, D] bool."""
    return ~state["seen"][fed.active, None] & fed.exchanged


def received(
    state: State, fed: Federation, shared: Tensor, newcomer: Newcomer = "initial"
) -> Tensor:
    """The same after the server has sent the active clients what is new to them  [K, D]."""
    start = models(state, fed, shared, newcomer)
    fed.down(start, shared | _lacking(state, fed) if newcomer == "global" else shared)
    return start


def average(
    state: State, fed: Federation, end: Tensor, shared: Tensor, newcomer: Newcomer = "initial"
) -> State:
    """Upload and average the shared entries of trained models [K, D]; every client keeps the rest
    of its own.
    """
    sent = fed.exchanged if newcomer == "global" else shared
    return {
        "theta": torch.where(sent, fed.mean(fed.up(end, sent)), state["theta"]),
        **kept(state, fed, end, shared),
    }


def kept(state: State, fed: Federation, end: Tensor, shared: Tensor) -> State:
    """What stays with the clients after a round that ended with models [K, D]: their own entries,
    and that they took part.
    """
    seen = state["seen"].clone()
    seen[fed.active] = True
    return {"own": fed.put(state["own"], _rest(fed, end, shared)), "seen": seen}


def settled(fed: Federation, models: Tensor) -> Tensor:
    """Models [K, D] whose local statistics have seen the active clients' training samples for as
    long as an ordinary training would have; nothing else of them moves.
    """
    if bool((fed.layout.stats & ~fed.exchanged).any()):
        models = fed.train(models, trainable=fed.layout.stats, stream="join").theta
    return models
