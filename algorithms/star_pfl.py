"""Star-PFL: freeze entries that no longer move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, part, register
from repfl.algorithms.engine.params import Params, count_true
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math.masks import holders_mean, log_shares, masked_quantile


@hyperparameters
class HP:
    """When an entry counts as stable, and what follows from it."""

    server_threshold: float = param(
        0.1,
        "T_g: stability below which an entry is frozen at the server",
        ge=0,
        paper="0.1; code: 0",
        search={"uniform": [0, 0.3]},
    )
    client_threshold: float = param(
        0.1, "T_l: the same at a client", ge=0, paper="0.1; code: 0", search={"uniform": [0, 0.3]}
    )
    server_record: int = param(
        10, "|R_g|: updates that the server remembers of every entry", ge=1, paper=10
    )
    client_record: int = param(
        5, "|R_l|: updates that a client remembers of every entry", ge=1, paper=5
    )
    early: int = param(
        5,
        "epochs of a round whose updates a client records",
        ge=1,
        paper="text: early epochs; code: 6",
    )
    masked: Literal["all", "weights"] = param(
        "all",
        "entries that freezing reaches in training; `weights` spares biases",
        paper="code: weights",
    )
    cap: float = param(
        0.0,
        "limit of a tensor's frozen share of the whole model, with the code's quantile rule;"
        " 0: off",
        ge=0,
        le=1,
        paper="code: 0.7",
    )
    sent: Literal["checked", "trained"] = param(
        "checked",
        "entries a client uploads: active after its check (code), or those that trained"
        " (Algorithm 1)",
        paper="text: trained",
    )
    average: Literal["holders", "all"] = param(
        "holders",
        "server: mean over those who send an entry (code), or of updates that count as 0 where not"
        " sent",
        paper="text: all",
    )
    halving: Literal["clamped", "code"] = param(
        "clamped",
        "check period after an active trial: max(1, F // 2), or F // 2 kept even at 0 (code)",
    )


ALGORITHM_1 = {
    "masked": "all",
    "cap": 0.0,
    "sent": "trained",
    "average": "all",
    "halving": "clamped",
}
"""The switches by which the paper's text is followed."""


@dataclass
class Tracker:
    """The state of each entry at the server, or at every client."""

    active: Tensor  # M [rows, D] bool: the entry trains
    trial: Tensor  # M' [rows, D] bool: it is active for one round, to see whether it moves again
    period: Tensor  # F [rows, D]: rounds that it stays frozen
    frozen: Tensor  # L [rows, D]: rounds that it has been frozen
    record: Tensor  # R [rows, length, D]: its last non-zero updates

    def append(self, update: Tensor) -> None:
        """Append the non-zero entries of an update [rows, D] to the record, dropping the oldest."""
        moved = torch.cat([self.record[:, 1:], update[:, None]], dim=1)
        self.record = torch.where((update != 0)[:, None], moved, self.record)

    def update_activity(self, params: Params, threshold: float) -> None:
        """Freeze the active entries whose stability is below a threshold."""
        self.freeze(stability(params, self.record) < threshold)

    def freeze(self, stable: Tensor) -> None:
        """Freeze the active entries that are stable, but for those on trial."""
        self.active = self.active & (self.trial | ~stable)

    def end_trials(self, params: Params, threshold: float, shortest: int = 1) -> None:
        """End trials, with a longer period for what is still stable and a shorter one for what
        moves; then put the entries that were frozen for their period on trial.
        """
        frozen = self.frozen + (~self.active).int()
        moves = stability(params, self.record) >= threshold
        after_trial = torch.where(moves, self.period // 2, self.period + 1).clamp(min=shortest)
        self.period = torch.where(self.trial, after_trial, self.period)
        self.trial = self.period.clamp(min=1) <= frozen
        self.active = self.active | self.trial
        self.frozen = torch.where(self.trial, 0, frozen)


def stability(params: Params, record: Tensor) -> Tensor:
    """Return |sum of updates| / sum of |updates|; zero for an entry without a record, infinite in a
    tensor without any and for batch-norm statistics  [rows, length, D] -> [rows, D].
    """
    size = record.abs().sum(1)
    out = torch.where(size > 0, record.sum(1).abs() / torch.where(size > 0, size, 1.0), 0.0)
    for s in params:
        recorded = (size[:, s.place] > 0).any(1, keepdim=True) & (s.kind != "stat")
        out[:, s.place] = torch.where(recorded, out[:, s.place], float("inf"))
    return out


@register(
    "star-pfl",
    title="Star-PFL",
    paper=(
        "Guo et al., Efficient Personalized Federated Learning on Selective Model Training,"
        " ICASSP 2023,"
        " https://rc.signalprocessingsociety.org/conferences/icassp-2023/spsicassp23vid2068;"
        " code: Guoyeting/Star-PFL at 0565c53"
    ),
    year=2023,
    family="mask",
    sends=(
        "down: the model and a bitmap of active entries; up: entries active at server and client,"
        " and a bitmap of the client's own"
    ),
    variants=(
        "sent=trained, average=all",
        "masked=weights, cap=0.7, early=6, halving=code",
        "server_threshold=0.0, client_threshold=0.0",
    ),
    cost=1.25,
)
class StarPFL(FedAvg[HP]):
    """FedAvg that neither trains nor sends entries whose updates cancel out. Server and clients
    judge by their own records R of updates (see `Tracker`).

    Stability of an entry: |sum of its recorded updates| / sum of their sizes; active if at least T.
    Server: update M_g; send w and M_g.  Client: start from w, update M_l, train where M_l, record
    the first epochs' updates, end trials.  Server: average each entry with M_g over the clients
    with M_l; record the update, end trials.
    End trials: L += 1 where frozen; on trial F += 1 if still stable, else F /= 2; where F <= L the
    entry goes on trial and L = 0.

    Everything starts active. Scored: `pre_agg` as in the paper, since personal models exist only
    between training and aggregation; `post_agg` is the global model. This class is Algorithm 1;
    what the published code does otherwise is `CodesStarPFL`, of which the defaults take what is
    sent and averaged (paper_tables/star_pfl/README.md).
    """

    HP = HP

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        return cls if ALGORITHM_1.items() <= vars(hp).items() else CodesStarPFL

    def init(self, fed: Federation) -> State:
        server = new_tracker(fed, 1, self.hp.server_record)
        clients = new_tracker(fed, fed.N, self.hp.client_record)
        return super().init(fed) | as_state("server", server) | as_state("client", clients)

    def round(self, state: State, fed: Federation) -> State:
        hp, params, theta = self.hp, fed.params, state["theta"]
        server = Tracker(**part(state, "server."))
        clients = Tracker(**{n: t[fed.active] for n, t in part(state, "client.").items()})

        server.update_activity(params, hp.server_threshold)
        start = self.download(state, fed)
        active_at_server = fed.send_mask("down", server.active, params.learnable)

        self.freeze_at_clients(params, clients)
        trained = clients.active  # [K, D]
        end = self.train_active(fed, start, clients, trained)
        clients.end_trials(params, hp.client_threshold, self.shortest_period)
        sent = fed.communicated & active_at_server & self.uploaded(trained, clients)
        held = fed.send_mask("up", sent, domain=params.learnable)

        new = self.aggregate(fed, theta, fed.up(end, sent), held)
        server.append(torch.where(params.learnable, new - theta, 0.0)[None])
        server.end_trials(params, hp.server_threshold, self.shortest_period)

        for name, share in (("trained", trained), ("sent", sent)):
            count = count_true(share & params.learnable).sum().double()
            fed.log(name, count / (fed.K * params.parameters))
        log_shares(fed, "active", trained)
        fed.count_mask("mask", trained)
        tracked = {
            name: fed.scatter_rows(state[name], rows)
            for name, rows in as_state("client", clients).items()
        }
        return {"theta": new, **self.keep(state, fed, end), **as_state("server", server), **tracked}

    @property
    def shortest_period(self) -> int:
        """The rounds that an entry stays frozen at least, once it was stable."""
        return 1

    def freeze_at_clients(self, params: Params, clients: Tracker) -> None:
        """Freeze the entries that are stable at clients."""
        clients.update_activity(params, self.hp.client_threshold)

    def train_active(
        self, fed: Federation, start: Tensor, clients: Tracker, active: Tensor
    ) -> Tensor:
        """Train active entries; the first epochs' updates become the new record  [K, D]."""
        done = fed.train(start, trainable=active, keep=("epochs",))
        assert done.epochs is not None
        clients.record = torch.zeros_like(clients.record)
        for before, after in zip([start, *done.epochs], done.epochs[: self.hp.early], strict=False):
            clients.append(torch.where(fed.params.learnable, after - before, 0.0))
        return done.params

    def uploaded(self, trained: Tensor, clients: Tracker) -> Tensor:
        """Return which of the server's active entries clients send  [K, D] bool."""
        return trained

    def aggregate(self, fed: Federation, theta: Tensor, uploaded: Tensor, held: Tensor) -> Tensor:
        """Return the new global model: an update counts as 0 where it is not sent  [D]."""
        return theta + fed.mean(torch.where(held, uploaded - theta, 0.0))


class CodesStarPFL(StarPFL):
    """What the published code does otherwise, each by its switch."""

    PERCENT = 100
    """The code passes a share where a percentile is expected: its quantile is a hundredth of it."""

    @property
    def shortest_period(self) -> int:
        # a period of 1 that is halved becomes 0
        return 0 if self.hp.halving == "code" else 1

    def freeze_at_clients(self, params: Params, clients: Tracker) -> None:
        """Freeze at most a share of the whole model in any tensor: its threshold is a quantile."""
        cap, stable = self.hp.cap, stability(params, clients.record)
        bar, may_freeze = torch.full_like(stable, self.hp.client_threshold), ~clients.trial
        for s in params.trained if cap else []:
            active = clients.active[:, s.place]
            scores, among = (
                stable[:, s.place].nan_to_num(posinf=0.0),
                active & may_freeze[:, s.place],
            )
            frozen = (~active).sum(1, keepdim=True) / params.parameters
            level = masked_quantile(scores, among, (cap - frozen).clamp(min=0) / self.PERCENT)
            bar[:, s.place] = level.nan_to_num(posinf=0.0).clamp(min=self.hp.client_threshold)
            may_freeze[:, s.place] &= frozen < cap
        clients.freeze((stable < bar) & may_freeze)

    def train_active(
        self, fed: Federation, start: Tensor, clients: Tracker, active: Tensor
    ) -> Tensor:
        """Train biases as well, if `masked` names weights."""
        if self.hp.masked == "weights":
            active = active | fed.params.select(lambda s: not s.name.endswith("weight"))
        return super().train_active(fed, start, clients, active)

    def uploaded(self, trained: Tensor, clients: Tracker) -> Tensor:
        """Send what is active after the client's check."""
        return clients.active if self.hp.sent == "checked" else trained

    def aggregate(self, fed: Federation, theta: Tensor, uploaded: Tensor, held: Tensor) -> Tensor:
        """Average over those who send an entry; without any it stays.

        Averaging updates instead of values differs by rounding, which must not enter the record.
        """
        if self.hp.average == "all":
            return super().aggregate(fed, theta, uploaded, held)
        update = torch.where(held, uploaded - theta, 0.0)
        return theta + holders_mean(update, held, fed.weights, torch.zeros_like(theta))


def new_tracker(fed: Federation, rows: int, length: int) -> Tracker:
    """Return a tracker of entries that are all active, with an empty record."""
    no = torch.zeros(rows, fed.D, dtype=torch.bool, device=fed.device)
    zero = torch.zeros(rows, fed.D, dtype=torch.int32, device=fed.device)
    record = torch.zeros(rows, length, fed.D, dtype=fed.dtype, device=fed.device)
    return Tracker(~no, no, zero + 1, zero, record)


def as_state(who: str, tracker: Tracker) -> State:
    """Return a tracker's tensors under their names in the state."""
    return {f"{who}.{name}": value for name, value in vars(tracker).items()}
