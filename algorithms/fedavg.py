"""FedAvg: average what clients have learned. Most other methods derive from it."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Chosen, Method, State, register
from repfl.algorithms.engine.params import columns, true_slices, write_columns


@register(
    "fedavg",
    title="FedAvg",
    paper=(
        "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized"
        " Data, AISTATS 2017, arXiv 1602.05629"
    ),
    year=2017,
    family="global",
    sends="the whole model down and up; BN statistics only if the recipe averages them",
)
class FedAvg(Method[Chosen]):
    """Every client starts from one model; the server averages what comes back, weighted as the
    recipe says.

    w_i <- E epochs of SGD from w;  w <- sum_i p_i w_i.

    A method that derives from this one says in `shared_mask` what the server averages, and in
    `local_update` how clients train. Clients keep all entries that are not shared: here their BN
    statistics, if the recipe says `buffers = local`.

    State: `theta` [D] is the average, `own` [N, D'] what each client keeps, `seen` [N] who has
    taken part. Differences from published code: docs/methods/fedavg.md.
    """

    def shared_mask(self, fed: Federation) -> Tensor:
        """Return the mask of the entries that the server averages  [D] bool."""
        return fed.communicated

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        """Train the active clients' models  [K, D] -> [K, D]."""
        return fed.train(params)

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
        """Send the active clients the average; return their models  [K, D]."""
        return self.merge(state, fed, fed.down(state["theta"], self.shared_mask(fed)))

    def upload_and_average(self, state: State, fed: Federation, params: Tensor) -> State:
        """Return the state after the active clients trained their models to `params` [K, D]."""
        sent = self.uploaded_mask(fed)
        theta = torch.where(sent, fed.mean(fed.up(params, sent)), state["theta"])
        return {"theta": theta, **self.keep(state, fed, params)}

    def server_step(self, state: State, fed: Federation, average: Tensor, size: float) -> Tensor:
        """Return the server's model moved a step of some size towards an average  [D]. Running
        statistics are the average's: a longer step would take variances below zero.
        """
        moved = torch.lerp(state["theta"], average, size)
        return torch.where(fed.params.stats, average, moved)

    def uploaded_mask(self, fed: Federation) -> Tensor:
        """Return the mask of the entries that clients send  [D] bool."""
        return self.shared_mask(fed)

    # -- what clients keep -------------------------------------------------------------------------

    def personal_columns(self, fed: Federation) -> list[slice]:
        """Return the columns of the entries that clients keep."""
        return true_slices(~fed.to_host(self.shared_mask(fed)))

    def merge(self, state: State, fed: Federation, received: Tensor) -> Tensor:
        """Return the active clients' models: what they keep, and else what they received
        [K, D] -> [K, D].
        """
        places = self.personal_columns(fed)
        if not places:
            return received
        return write_columns(received.clone(), places, state["own"][fed.active])

    def keep(self, state: State, fed: Federation, params: Tensor) -> State:
        """Return what stays with the clients after a round that ended with `params` [K, D]."""
        seen = state["seen"].clone()
        seen[fed.active] = True
        own = columns(params, self.personal_columns(fed))
        return {"own": fed.scatter_rows(state["own"], own), "seen": seen}
