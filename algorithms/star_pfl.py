"""Star-PFL: freeze what has settled."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import masks, partial
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Layout
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial


@hyperparameters
class HP:
    """When an entry counts as settled, and what follows from it."""

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
    cost=2.0,
)
class StarPFL(Partial[HP]):
    """FedAvg that neither trains nor sends entries whose updates cancel out. Server and clients
    judge on their own records R of updates.

    Stability of an entry: |sum of its recorded updates| / sum of their sizes; active if at least T.
    A round: Server: measure M_g on active entries not on trial; send w and M_g. Client: start from
    w, measure M_l, train where M_l, record the first epochs' updates, check. Server: average each
    entry with M_g over the clients with M_l; record the update, check. Check: L += 1 where frozen;
    an entry on trial sets F += 1 if still settled, else F /= 2; entries with F <= L reopen on
    trial, L = 0.

    Everything starts active (the text's M = 0 would mean frozen). A record keeps each entry's last
    non-zero updates; a tensor without any recorded update is active as a whole. Clients clear their
    record before training. The recipe's weights apply to the average (the code's are uniform).
    Personal models exist only between training and aggregation: the paper scores `pre_agg`;
    `post_agg` is the global model.
    """

    HP = HP

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged

    def init(self, fed: Federation) -> State:
        server = fresh(fed, 1, self.hp.server_record)
        clients = fresh(fed, fed.N, self.hp.client_record)
        return super().init(fed) | named("server", server) | named("client", clients)

    def round(self, state: State, fed: Federation) -> State:
        hp, layout = self.hp, fed.layout
        server = side(state, "server")
        server["active"] = measured(layout, server, hp.server_threshold)
        start = self.received(state, fed)
        fed.down_mask(server["active"], layout.learnable)
        client = {name: value[fed.active] for name, value in side(state, "client").items()}
        client["active"] = measured(layout, client, hp.client_threshold, hp.cap)
        trained = client["active"]
        end = self.train(fed, start, client)
        client = checked(layout, client, hp.client_threshold, hp.halving)
        sent = server["active"] & (client["active"] if hp.sent == "checked" else trained)  # [K, D]
        fed.up(end, sent & fed.exchanged, code="bitmap", domain=layout.learnable)
        theta = self.aggregated(state, fed, start, end, sent)
        server["record"] = pushed(
            server["record"], torch.where(layout.learnable, theta - state["theta"], 0.0)[None]
        )
        server = checked(layout, server, hp.server_threshold, hp.halving)
        self.note(fed, trained, sent)
        everyone = side(state, "client")
        for name, value in everyone.items():
            everyone[name] = fed.put(value, client[name])
        kept = partial.kept(state, fed, end, fed.exchanged)
        return {"theta": theta, **kept, **named("server", server), **named("client", everyone)}

    def train(self, fed: Federation, start: Tensor, client: State) -> Tensor:
        """Local training of active entries; the first epochs' updates become the new
        record  [K, D].
        """
        spared = (
            fed.layout.select(lambda s: not s.name.endswith("weight"))
            if self.hp.masked == "weights"
            else ~fed.layout.learnable
        )
        done = fed.train(start, trainable=client["active"] | spared, keep=("epochs",))
        assert done.epochs is not None
        client["record"] = torch.zeros_like(client["record"])
        before = start
        for after in done.epochs[: self.hp.early]:
            client["record"] = pushed(
                client["record"], torch.where(fed.layout.learnable, after - before, 0.0)
            )
            before = after
        return done.theta

    def aggregated(
        self, state: State, fed: Federation, start: Tensor, end: Tensor, sent: Tensor
    ) -> Tensor:
        """The new global model; entries that nobody sends stay  [D].

        Updates are averaged, not values: they are the same but for rounding, which must not enter
        the record as an update.
        """
        sent, update = sent & fed.exchanged, end - start
        if self.hp.average == "holders":
            return state["theta"] + masks.holders_mean(
                update, sent, fed.weights, torch.zeros_like(state["theta"])
            )
        return state["theta"] + fed.mean(torch.where(sent, update, 0.0))

    def note(self, fed: Federation, trained: Tensor, sent: Tensor) -> None:
        """Shares of learnable entries that trained and that were sent, and of each weight tensor
        that trained.
        """
        fed.note("trained", trained[:, fed.layout.learnable].double().mean())
        fed.note("sent", sent[:, fed.layout.learnable].double().mean())
        masks.note_shares(fed, "active", trained)
        fed.tally("mask", trained)


# -- one side's bookkeeping: active M, trial M', period F, frozen L [rows, D], record R [rows, lengt


def fresh(fed: Federation, rows: int, length: int) -> State:
    """Everything active, nothing recorded."""
    flags = torch.zeros(rows, fed.D, dtype=torch.bool, device=fed.device)
    counts = torch.zeros(rows, fed.D, dtype=torch.int32, device=fed.device)
    record = torch.zeros(rows, length, fed.D, dtype=fed.dtype, device=fed.device)
    return {
        "active": ~flags,
        "trial": flags,
        "period": counts + 1,
        "frozen": counts,
        "record": record,
    }


def named(who: str, values: State) -> State:
    """One side's tensors under their names in the state."""
    return {f"{who}.{name}": value for name, value in values.items()}


def side(state: State, who: str) -> State:
    """One side's tensors out of the state."""
    return {
        name.removeprefix(f"{who}."): value
        for name, value in state.items()
        if name.startswith(f"{who}.")
    }


def pushed(record: Tensor, update: Tensor) -> Tensor:
    """Each entry's non-zero update joins its record, the oldest leaves  [rows, length, D]."""
    moved = torch.cat([record[:, 1:], update[:, None]], dim=1)
    return torch.where((update != 0)[:, None], moved, record)


def stability(layout: Layout, record: Tensor) -> Tensor:
    """|sum of updates| / sum of |updates|; zero without a record, infinite in a tensor without any
    and for statistics  [rows, D].
    """
    size = record.abs().sum(1)
    out = torch.where(size > 0, record.sum(1).abs() / torch.where(size > 0, size, 1.0), 0.0)
    for s in layout:
        idle = (
            ~(size[:, s.start : s.stop] > 0).any(1)
            if s.kind != "stat"
            else torch.ones(len(size), dtype=torch.bool, device=size.device)
        )
        out[idle, s.start : s.stop] = float("inf")
    return out


def measured(layout: Layout, own: State, threshold: float, cap: float = 0.0) -> Tensor:
    """New activity of the entries that are active and not on trial  [rows, D] bool."""
    stable = stability(layout, own["record"])
    judged, bar = own["active"] & ~own["trial"], torch.full_like(stable, threshold)
    if cap:
        for place in layout.tensors(layout.learnable):
            frozen = (~own["active"][:, place]).sum(
                1, keepdim=True
            ) / layout.parameters  # [rows, 1]
            level = masks.quantile(
                stable[:, place].nan_to_num(posinf=0.0),
                judged[:, place],
                (cap - frozen).clamp(min=0) / 100,
            )
            bar[:, place] = level.nan_to_num(posinf=0.0).clamp(min=threshold)
            judged[:, place] &= frozen < cap
    return torch.where(judged, stable >= bar, own["active"])


def checked(layout: Layout, own: State, threshold: float, halving: str) -> State:
    """The bookkeeping after a round: trials are judged, and entries frozen for long enough go on
    trial.
    """
    frozen = own["frozen"] + (~own["active"]).int()
    moving = stability(layout, own["record"]) >= threshold
    period = torch.where(
        own["trial"], torch.where(moving, own["period"] // 2, own["period"] + 1), own["period"]
    )
    if halving == "clamped":
        period = period.clamp(min=1)
    trial = period.clamp(min=1) <= frozen
    return own | {
        "active": own["active"] | trial,
        "trial": trial,
        "period": period,
        "frozen": torch.where(trial, 0, frozen),
    }
