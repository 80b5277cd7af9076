"""FedSelect: personalise the entries that local training moves most, a few more every round."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.alternate import local_alt
from repfl.algorithms.core.chunk import cross_entropy, still_cross_entropy
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import largest
from repfl.algorithms.core.masks import holders_mean
from repfl.algorithms.core.method import (
    Method,
    MethodError,
    State,
    hyperparameters,
    param,
    register,
)
from repfl.algorithms.core.rng import lots

INFINITE = float("inf")


@hyperparameters
class HP:
    """How personal parts grow."""

    rate: float = param(
        0.25,
        "p: share of a tensor's shared entries that become personal at a time",
        ge=0,
        le=1,
        paper="lost; code 0.25",
        search={"uniform": [0.05, 0.5]},
    )
    limit: float = param(
        0.5,
        "alpha: share of a tensor that may be personal",
        ge=0,
        le=1,
        paper="Table 2: .05 .30 .50 .80; code 0.80",
        search={"uniform": [0.05, 0.8]},
    )
    every: int | None = param(
        None,
        "participations between two growths; none: 1, or 3 by the code's rules",
        ge=1,
        paper="text 1; code 3",
    )
    mode: Literal["paper", "code", "code-eval"] = param(
        "paper",
        "whose rules: `paper` never exceeds the limit, looks at all parameters and at their change"
        " in this round, grows from the first participation on and skips passes over nothing;"
        " `code` tests the limit before growing (and overshoots), takes ties, leaves biases shared,"
        " looks at the change since the last growth, does not grow in the first participation and"
        " alternates even over nothing; `code-eval` also leaves batch norm in evaluation mode from"
        " the second round on, as the code's scoring does",
        paper="FedOBP's tables: code, every 3, limit 0.8",
        spelled=("mode", "compat"),
    )
    select: Literal["most", "least", "random", "layer"] = param(
        "most",
        "what becomes personal: entries that moved most, or least, or any; or one layer from the"
        " start",
        paper="Table 3: all four",
    )
    layer: str = param(
        "D",
        "the personal layer: A (first), B, C, D (last), or how its tensors' names begin",
        paper="Table 3: A to D; lost",
    )
    moved_only: bool = param(
        True, "paper's rules: an entry that did not move at all stays shared (dead weights)"
    )
    weighting: Literal["uniform", "protocol"] = param(
        "uniform", "average over holders: each counts the same, or as the recipe weighs them"
    )

    @property
    def by_code(self) -> bool:
        """Whether masks grow by the code's rules."""
        return self.mode != "paper"


@register(
    "fedselect",
    title="FedSelect",
    paper=(
        "Tamirisa et al., FedSelect: Personalized Federated Learning with Customized Selection of"
        " Parameters for Fine-Tuning, CVPR 2024, arXiv 2404.02478; code: lapisrocks/fedselect at"
        " 0949f8a"
    ),
    year=2024,
    family="mask",
    sends="shared entries and a bitmap of them, down and up",
    variants=(
        "mode=code",
        "mode=code, limit=0.8",
        "mode=code-eval",
        "select=least",
        "select=random",
        "select=layer, layer=A",
        "weighting=protocol",
    ),
)
class FedSelect(Method[HP]):
    """Client i keeps the entries in its mask m_i for itself; all other entries are averaged over
    the clients that share them.

    u, v <- LocalAlt: every epoch one pass over personal entries v, then one over shared entries u,
    each with a fresh optimiser; theta <- mean of u over its holders, entry by entry;  m_i <- m_i
    and, in each tensor, the share p of its shared entries that moved most, up to the share alpha.
    New personal entries start from this round's average. An entry that no participant shares keeps
    its value at the server. BN statistics are personal where the recipe says so. The paper scores
    clients after local training (`pre_agg`).
    """

    HP = HP

    def passes(self, epochs: int) -> tuple[int, int]:
        return 2 * epochs, 0  # one over personal entries, one over shared ones

    def init(self, fed: Federation) -> State:
        w = torch.where(fed.exchanged, fed.new_model(), fed.new_models())
        mask = self.layer(fed) if self.hp.select == "layer" else torch.zeros_like(fed.exchanged)
        state = {
            "theta": fed.new_model(),
            "w": w,
            "mask": mask.repeat(fed.N, 1),
            "visits": torch.zeros_like(fed.everybody),
        }
        return state | ({"before": w.clone()} if self.hp.by_code else {})

    def selectable(self, fed: Federation) -> Tensor:
        """The entries that can become personal  [D] bool."""
        weights = fed.layout.select(lambda s: s.kind != "stat" and s.name.endswith("weight"))
        return weights if self.hp.by_code else fed.layout.learnable

    def layer(self, fed: Federation) -> Tensor:
        """The entries of one layer  [D] bool."""
        name, layers = self.hp.layer, fed.layout.layers
        if name in ("A", "B", "C", "D"):
            tensors = {
                s
                for s in layers["ABCD".index(name) * (len(layers) - 1) // 3]
                if s.kind in ("conv", "linear", "bias")
            }
        else:
            tensors = {s for s in fed.layout if s.name.startswith(name) and s.kind != "stat"}
        if not tensors:
            raise MethodError(
                f"fedselect: no layer is called {name!r}; take A, B, C, D or one of"
                f" {', '.join(s.name for s in fed.layout)}"
            )
        return fed.layout.select(lambda s: s in tensors)

    def models(self, state: State, fed: Federation) -> Tensor:
        """The active clients' models: personal entries and local statistics their own, the rest
        from the server  [K, D].
        """
        return torch.where(
            state["mask"][fed.active] | ~fed.exchanged, state["w"][fed.active], state["theta"]
        )

    def round(self, state: State, fed: Federation) -> State:
        mask, start = state["mask"][fed.active], self.models(state, fed)
        shared = fed.exchanged & ~mask  # [K, D]
        told: dict[str, Any] = (
            {} if self.hp.select == "layer" else {"code": "bitmap", "domain": self.selectable(fed)}
        )
        fed.down(start, shared, **told)
        objective = (
            still_cross_entropy if self.hp.mode == "code-eval" and fed.round > 1 else cross_entropy
        )
        end = local_alt(
            fed,
            start,
            mask,
            shared & fed.layout.learnable,
            skip_empty=not self.hp.by_code,
            objective=objective,
        )
        weights = torch.ones_like(end[:, 0]) if self.hp.weighting == "uniform" else fed.weights
        theta = holders_mean(fed.up(end, shared, **told), shared, weights, state["theta"])
        visits, selectable = state["visits"][fed.active], self.selectable(fed)
        due, before = (
            self.due(visits),
            state["before"][fed.active] if "before" in state else start,
        )
        if self.hp.select != "layer" and bool(due.any()):
            mask = mask | (self.grown(fed, mask, (end - before).abs()) & due[:, None])
        fed.tally("mask", mask)
        fed.note("personal", (mask & selectable).sum() / (fed.K * selectable.sum()))
        new = {"w": torch.where(shared, theta, end), "visits": visits + 1, "mask": mask}
        if "before" in state:
            new["before"] = torch.where(due[:, None], end, before)
        return {name: fed.put(state[name], own) for name, own in new.items()} | {"theta": theta}

    def due(self, visits: Tensor) -> Tensor:
        """Who grows now, given how often each took part before  [K] bool."""
        if self.hp.by_code:
            return (visits > 0) & (visits % (self.hp.every or 3) == 0)
        return (visits + 1) % (self.hp.every or 1) == 0

    def grown(self, fed: Federation, mask: Tensor, change: Tensor) -> Tensor:
        """Masks with what becomes personal next, tensor by tensor  [K, D] bool."""
        rule = self.code_rule if self.hp.by_code else self.paper_rule
        keys = [int(fed.rng("mask", client).integers(1 << 62)) for client in fed.active.tolist()]
        drawn = torch.tensor(keys, device=fed.device)
        out = mask.clone()
        for place in fed.layout.tensors(self.selectable(fed)):
            lottery = self.hp.select == "random"
            scores = (
                lots(drawn, place.start, place.stop - place.start).double().abs()
                if lottery
                else change[:, place]
            )
            out[:, place] |= rule(mask[:, place], scores, change[:, place] > 0)
        return out

    def paper_rule(self, own: Tensor, score: Tensor, moved: Tensor) -> Tensor:
        """The share p of shared entries with the highest (or lowest) score, as far as the limit
        allows  [K, n] bool.
        """
        size, personal = own.shape[1], own.sum(1)
        free = ~own & moved if self.hp.moved_only else ~own
        wanted = (self.hp.rate * (size - personal).double()).round().long()
        count = torch.minimum(
            torch.minimum(wanted, int(self.hp.limit * size) - personal), free.sum(1)
        ).clamp(min=0)
        return largest(
            (-score if self.hp.select == "least" else score).masked_fill(~free, -INFINITE), count
        )

    def code_rule(self, own: Tensor, score: Tensor, _: Tensor) -> Tensor:
        """All entries that reach the sorted value at position round((1 - p) n) of n shared ones, if
        the limit allows  [K, n] bool.
        """
        score = -score if self.hp.select == "least" else score
        shared = (~own).sum(1)
        ascending = score.masked_fill(own, INFINITE).sort(dim=1).values  # shared entries first
        position = ((1 - self.hp.rate) * shared.double()).round().long()
        bar = ascending.gather(1, position.clamp(max=own.shape[1] - 1)[:, None])
        allowed = (position < shared) & (own.sum(1).double() / own.shape[1] <= self.hp.limit)
        return (score >= bar) & allowed[:, None]

    def personal(self, state: State, fed: Federation) -> Tensor:
        return self.models(state, fed)
