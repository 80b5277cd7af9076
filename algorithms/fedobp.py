"""FedOBP: keep the few entries whose replacement by global ones would change the loss most."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import importance
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.fisher import fisher
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


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
    norm: importance.Norm = param(
        "global",
        "scores as they are, or min-max scaled per tensor or over all of them",
        paper="Table V: all three",
    )
    cls: bool = param(
        False, "only entries of the last linear layer may be personal", paper="Table V: both"
    )
    quantile_scope: importance.Scope = param(
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
)
class FedOBP(Method[HP]):
    """A client's entry is personal if it scores above the q-quantile tau of all its scores, w_i
    being the last model it uploaded.

    s = (w_i - w_g)^2;  U_i = {k : s_k > tau};  start_i = w_i on U_i, w_g elsewhere;  w_i <- E
                        epochs of SGD on all entries from start_i;
    w_g <- sum_i p_i w_i. Every client is scored with start_i from the current w_g. The quantile
    interpolates linearly and the comparison is strict, which makes ceil((P - 1)(1 - q)) of P
    entries personal: the paper's Table II. Equation 11's further factor 1 / |C_t| is left out, as
    in equations 2 and 21 and in the code. Scores that are all equal (the first round) make nothing
    personal. Running statistics have no score: they follow the protocol. With `ema`, scoring does
    not advance the average; the code's evaluation does.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        last = fed.new_model().expand(fed.N, -1).clone()  # [N, D]
        state = {
            "theta": fed.new_model(),
            "last": last,
            "seen": torch.zeros(fed.N, dtype=torch.bool, device=fed.device),
        }
        if self.hp.score == "grad":
            state["change"] = torch.zeros_like(last)
        if self.hp.ema:
            state["score"] = torch.zeros_like(last)
        return state

    def round(self, state: State, fed: Federation) -> State:
        scores, mask = self.decided(state, fed)
        start = self.merged(state, fed, mask)
        if self.hp.decoupling == "server" and self.hp.score != "fisher":
            fed.down(start, fed.exchanged & ~mask, code="shorter")
        else:
            fed.down(state["theta"])
        end = fed.train(start).theta
        new = {"theta": torch.where(fed.exchanged, fed.mean(fed.up(end)), state["theta"])}
        kept = {
            "last": end,
            "change": (start - end).abs(),
            "score": scores,
            "seen": torch.ones_like(fed.active, dtype=torch.bool),
        }
        for name in state.keys() - new.keys():
            new[name] = fed.put(state[name], kept[name])
        self.record(fed, mask)
        return new

    def scores(self, state: State, fed: Federation) -> Tensor:
        """Importance of the active clients' entries  [K, D]."""
        last, seen = state["last"][fed.active], state["seen"][fed.active, None]
        match self.hp.score:
            case "obp":
                now = (last - state["theta"]).square()
            case "obp_legacy":
                now = ((last - state["theta"]) * last).abs()
            case "grad":
                now = state["change"][fed.active]
            case _:
                now = fisher(fed, last)
        if not self.hp.ema:
            return now
        return torch.where(
            seen, (1 - self.hp.ema) * now + self.hp.ema * state["score"][fed.active], now
        )

    def decided(self, state: State, fed: Federation) -> tuple[Tensor, Tensor]:
        """Scores, and which entries are personal; participants are scored with the models that
        they then train, so both need it  [K, D] each.
        """

        def work() -> tuple[Tensor, Tensor]:
            scores = self.scores(state, fed)
            return scores, self.mask(state, fed, scores)

        return fed.once("mask", [fed.active, *state.values()], work)

    def mask(self, state: State, fed: Federation, scores: Tensor) -> Tensor:
        """Which entries of the active clients are personal  [K, D] bool."""
        eligible = fed.layout.head if self.hp.cls else fed.layout.learnable
        mask = importance.above_quantile(
            fed.layout, scores, self.hp.q, eligible, self.hp.norm, self.hp.quantile_scope
        )
        return mask & state["seen"][fed.active, None] if self.hp.first == "global" else mask

    def merged(self, state: State, fed: Federation, mask: Tensor) -> Tensor:
        """Personal entries (and what the protocol leaves to clients) from the last model, the rest
        from the global one  [K, D].
        """
        return torch.where(mask | ~fed.exchanged, state["last"][fed.active], state["theta"])

    def record(self, fed: Federation, mask: Tensor) -> None:
        """How many entries are personal, on average over the cohort, in all and per layer."""
        fed.tally("personal", mask)
        count = mask.sum(0).float() / fed.K
        spans = {
            group[0].name.rsplit(".", 1)[0]: slice(group[0].start, group[-1].stop)
            for group in fed.layout.layers
        }
        shares = torch.stack([count[span].sum() for span in spans.values()])
        fed.note("personal", shares.double().sum())
        for layer, number in zip(spans, shares, strict=True):
            fed.note(f"personal/{layer}", number)

    def personal(self, state: State, fed: Federation) -> Tensor:
        return self.merged(state, fed, self.decided(state, fed)[1])

    def join(self, state: State, fed: Federation) -> Tensor:
        """A newcomer trains the global model, which then is its last one, and is scored as all
        clients are: with the global model but for the entries that are personal.
        """
        theta = self.offer(state, fed)
        start = theta.expand(fed.N, -1)
        last = fed.train(start, stream="join").theta
        known = {"theta": theta, "last": last, "seen": torch.ones_like(fed.everybody).bool()}
        if self.hp.score == "grad":
            known["change"] = (start - last).abs()
        return self.personal(self.init(fed) | known, fed)
