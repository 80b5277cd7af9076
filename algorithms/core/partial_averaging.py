"""Averaging some entries and keeping the others: FedAvg, FedPer, FedBN and the like.

State: `theta` [D] holds the averaged entries, `own` [N, D'] every client's other ones, `seen` [N]
who took part already.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar, cast

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Chosen, Method, State
from repfl.algorithms.engine.params import columns, runs, write_columns

Newcomer = Literal["initial", "global"]
"""What a client that never took part has in place of personal entries: its initial values, or the
average of those that took part last, for which these are communicated as well (FL-bench).
Batch-norm statistics that stay with clients are initial in either case.
"""


class PartialAveraging(Method[Chosen]):
    """The server averages the entries in `shared_mask`; clients keep the others.

    A hyper-parameter `newcomer`, if there is one, says what the others start from.
    """

    def shared_mask(self, fed: Federation) -> Tensor:
        """Return the mask of the entries that the server averages  [D] bool."""
        return fed.communicated

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        """Train the active clients' models  [K, D] -> [K, D]."""
        return fed.train(params)

    @property
    def newcomer(self) -> Newcomer:
        """What a client that never took part has in place of personal entries."""
        return cast(Newcomer, getattr(self.hp, "newcomer", "initial"))

    def init(self, fed: Federation) -> State:
        own = fed.client_rows(columns(fed.first_models(), self.personal_columns(fed)))
        seen = torch.zeros(fed.N, dtype=torch.bool, device=fed.device)
        return {"theta": fed.new_model(), "own": own, "seen": seen}

    def round(self, state: State, fed: Federation) -> State:
        params = self.local_update(fed, self.download(state, fed))
        return self.upload_and_average(state, fed, params)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return self.merge(state, fed, state["theta"].expand(fed.K, -1))

    def download(self, state: State, fed: Federation) -> Tensor:
        """Send the active clients what is new to them; return their models  [K, D]."""
        return self.merge(state, fed, fed.down(state["theta"], self._downloaded(state, fed)))

    def upload_and_average(self, state: State, fed: Federation, params: Tensor) -> State:
        """Return the state after the active clients trained their models to `params` [K, D]."""
        sent = fed.communicated if self.newcomer == "global" else self.shared_mask(fed)
        theta = torch.where(sent, fed.mean(fed.up(params, sent)), state["theta"])
        return {"theta": theta, **self.keep(state, fed, params)}

    def keep(self, state: State, fed: Federation, params: Tensor) -> State:
        """Return what stays with the clients after a round that ended with `params` [K, D]."""
        seen = state["seen"].clone()
        seen[fed.active] = True
        own = columns(params, self.personal_columns(fed))
        return {"own": fed.scatter_rows(state["own"], own), "seen": seen}

    def merge(self, state: State, fed: Federation, received: Tensor) -> Tensor:
        """Return the active clients' models: personal entries their own, the others from what they
        received  [K, D] -> [K, D].
        """
        places = self.personal_columns(fed)
        if not places:
            return received
        own = state["own"][fed.active]
        if self.newcomer == "global":
            first = ~state["seen"][fed.active, None] & columns(fed.communicated[None], places)
            own = torch.where(first, columns(received, places), own)
        return write_columns(received.clone(), places, own)

    def personal_columns(self, fed: Federation) -> list[slice]:
        """Return the columns of the entries that clients keep."""
        return runs(~fed.to_host(self.shared_mask(fed)))

    def _downloaded(self, state: State, fed: Federation) -> Tensor:
        """Return the mask of what is new to the active clients  [D] or [K, D] bool."""
        shared = self.shared_mask(fed)
        if self.newcomer == "initial":
            return shared
        return shared | (~state["seen"][fed.active, None] & fed.communicated)


class FineTuning(Protocol):
    """Hyper-parameters of `FineTuned`; `rate` is a multiple of the protocol's learning rate."""

    @property
    def epochs(self) -> int | None: ...
    @property
    def part(self) -> Literal["model", "body", "head"]: ...
    @property
    def rate(self) -> float: ...


Tuned = TypeVar("Tuned", bound=FineTuning)


class FineTuned(PartialAveraging[Tuned]):
    """Partial averaging whose clients train a copy of what they got before they are scored; nothing
    flows back.
    """

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


def recalibrate_batch_norm(fed: Federation, params: Tensor) -> Tensor:
    """Return models [K, D] whose local statistics have seen the active clients' training samples
    for as long as an ordinary training would have; nothing else of them moves.
    """
    if fed.protocol.buffers == "local" and any(s.kind == "stat" for s in fed.params):
        return fed.train(params, trainable=fed.params.stats, stream="join")
    return params
