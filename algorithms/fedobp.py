"""FedOBP: keep the few entries whose replacement by global ones would change the loss most."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.math.fisher import Reading, fisher
from repfl.algorithms.math.importance import Norm, Scope, above_quantile


@hyperparameters
class HP:
    """What makes an entry important, how many entries are personal, and who works that out."""

    q: float = param(
        0.9999,
        "quantile of the scores above which entries are personal",
        ge=0,
        le=1,
        paper="Table II: 0.995 to 0.99998",
        search={"near-one": [0.9, 0.99999]},
    )
    score: Literal["obp", "obp_legacy", "grad", "fisher"] = param(
        "obp",
        "importance of an entry: obp = (w_i - w_g)^2 (eq. 19); obp_legacy = |(w_i - w_g) w_i| (the"
        " authors' first code, the logs of Table V); grad = |change in the client's previous"
        " training| (I_G); fisher = Fisher information of w_i (I_F)",
        paper="obp; Fig. 4: grad, fisher, obp",
    )
    norm: Norm = param(
        "global",
        "scores as they are, or min-max scaled per tensor or over all of them",
        paper="Table V: all three",
    )
    cls: bool = param(
        False, "only entries of the last linear layer may be personal", paper="Table V: both"
    )
    quantile_scope: Scope = param(
        "global",
        "one bar for all tensors, or one per tensor",
        paper="global; the logs of I_F and I_G: tensor",
    )
    ema: float = param(
        0.0,
        "weight of the previous visit's score (authors' code)",
        ge=0,
        lt=1,
        paper="text: none; Fig. 4's logs: 0.5",
    )
    first: Literal["initial", "global"] = param(
        "initial",
        "a client's first visit: its last model is the initial one, or it takes the global model"
        " whole",
        paper="code: initial",
    )
    decoupling: Literal["server", "client"] = param(
        "server",
        "who computes the mask: the server, which then sends only what is not personal, or the"
        " client from a full download (authors' code); the masks are the same. Fisher scores need"
        " data, so the client computes them in either case",
        paper="server",
    )
    fisher: Reading = param(
        "samples",
        "score=fisher: mean over samples of squared gradients, or square of the mean gradient over"
        " the client's data",
        paper="eq. 6: mean",
        added_later=True,
    )


@register(
    "fedobp",
    title="FedOBP",
    paper=(
        "Chen et al., FedOBP: Federated Optimal Brain Personalization through Cloud-Edge"
        " Element-wise Decoupling, 2026, arXiv 2604.16574; code: uglyghost/FedOBP at b55d0fa,"
        " uglyghost/FedOBP_CODE at d433fcd"
    ),
    year=2026,
    family="mask",
    sends="up: the whole model; down: the entries that are not personal, and which ones these are",
    variants=(
        "norm=none",
        "norm=layer",
        "cls=true",
        "score=obp_legacy",
        "score=grad",
        "score=fisher",
        "quantile_scope=tensor",
        "ema=0.5",
        "first=global",
        "decoupling=client",
    ),
    cost=1.25,
)
class FedOBP(Method[HP]):
    """A client's entry is personal if it scores above the q-quantile tau of all its scores, w_i
    being the last model it uploaded.

    s = (w_i - w_g)^2;  U_i = {k : s_k > tau};  start_i = w_i on U_i, w_g elsewhere;
    w_i <- E epochs of SGD on all entries from start_i;  w_g <- sum_i p_i w_i.

    Every client is scored with start_i from the current w_g. Scores that are all equal (the first
    round) make nothing personal. Batch-norm statistics have no score: they follow the protocol.
    State: `last` [N, D] are the w_i, `seen` [N] says who has taken part; `change` and `score` are
    those of a client's last visit, if options need them.
    Differences from published code: paper_tables/fedobp/README.md.
    """

    HP = HP
    scores_start = True

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        # Fisher scores need the client's data, so the client finds them
        return ServersFedOBP if hp.decoupling == "server" and hp.score != "fisher" else cls

    def init(self, fed: Federation) -> State:
        first = fed.new_model()[None]
        state = {
            "theta": fed.new_model(),
            "last": fed.client_rows(first),  # [N, D]
            "seen": torch.zeros(fed.N, dtype=torch.bool, device=fed.device),
        }
        if self.hp.score == "grad":
            state["change"] = fed.client_rows(torch.zeros_like(first))
        if self.hp.ema:
            state["score"] = fed.client_rows(torch.zeros_like(first))
        return state

    def round(self, state: State, fed: Federation) -> State:
        theta, scores, mask, shared = self.decouple(state, fed)
        start = torch.where(shared, theta, state["last"][fed.active])
        fed.score("start", start)
        end = fed.train(start)
        new = {
            "theta": torch.where(fed.communicated, fed.mean(fed.up(end)), state["theta"]),
            "last": fed.scatter_rows(state["last"], end),
            "seen": fed.scatter_rows(state["seen"], torch.ones_like(fed.active).bool()),
        }
        if self.hp.score == "grad":
            new["change"] = fed.scatter_rows(state["change"], (start - end).abs())
        if self.hp.ema:
            new["score"] = fed.scatter_rows(state["score"], scores)
        self.record(fed, mask)
        return new

    def decouple(self, state: State, fed: Federation) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Send the global model; each client finds its personal entries. Return what it received,
        its scores, and the masks of its personal and its shared entries  [K, D] each.
        """
        theta = fed.down(state["theta"])
        scores = self.scores(state, fed, theta)
        mask = self.personal_mask(state, fed, scores)
        return theta, scores, mask, fed.communicated & ~mask

    def scores(self, state: State, fed: Federation, theta: Tensor) -> Tensor:
        """Return the importance of the active clients' entries  [K, D]."""
        last = state["last"][fed.active]
        match self.hp.score:
            case "obp":
                now = (last - theta).square()
            case "obp_legacy":
                now = ((last - theta) * last).abs()
            case "grad":
                now = state["change"][fed.active]
            case _:
                now = fisher(fed, last, self.hp.fisher)
        if not self.hp.ema:
            return now
        seen, before = state["seen"][fed.active, None], state["score"][fed.active]
        return torch.where(seen, (1 - self.hp.ema) * now + self.hp.ema * before, now)

    def personal_mask(self, state: State, fed: Federation, scores: Tensor) -> Tensor:
        """Return the mask of the active clients' personal entries  [K, D] bool."""
        tensors = fed.params.tensors(head=True) if self.hp.cls else fed.params.trained
        mask = above_quantile(scores, self.hp.q, tensors, self.hp.norm, self.hp.quantile_scope)
        return mask & state["seen"][fed.active, None] if self.hp.first == "global" else mask

    def record(self, fed: Federation, mask: Tensor) -> None:
        """Log how many entries are personal, on average over the cohort, in all and per layer."""
        fed.count_mask("personal", mask)
        count = mask.sum(0).float() / fed.K
        layers = {
            group[0].name.rsplit(".", 1)[0]: slice(group[0].start, group[-1].stop)
            for group in fed.params.layers
        }
        numbers = torch.stack([count[place].sum() for place in layers.values()])
        fed.log("personal", numbers.double().sum())
        for layer, number in zip(layers, numbers, strict=True):
            fed.log(f"personal/{layer}", number)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        mask = self.personal_mask(state, fed, self.scores(state, fed, state["theta"]))
        shared = fed.communicated & ~mask
        return torch.where(shared, state["theta"], state["last"][fed.active])

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train the global model, which then is the newcomer's last one; merge the two as for all
        clients.
        """
        theta = self.newcomer_init(state, fed)
        start = theta.expand(fed.N, -1)
        last = fed.train(start, stream="join")
        new = {"theta": theta, "last": last, "seen": torch.ones_like(fed.all_clients).bool()}
        if self.hp.score == "grad":
            new["change"] = (start - last).abs()
        return self.client_params(self.init(fed) | new, fed)


class ServersFedOBP(FedOBP):
    """The server, which knows every client's last upload, finds the personal entries, and sends
    the others with their mask.
    """

    def decouple(self, state: State, fed: Federation) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        scores = self.scores(state, fed, state["theta"])
        mask = self.personal_mask(state, fed, scores)
        shared = fed.send_mask("down", fed.communicated & ~mask, fed.communicated, code="shorter")
        return fed.down(state["theta"], shared), scores, mask, shared
