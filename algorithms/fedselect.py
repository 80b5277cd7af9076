"""FedSelect: personalise the entries that local training moves most, a few more every round."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import (
    Method,
    MethodError,
    State,
    hyperparameters,
    param,
    register,
)
from repfl.algorithms.engine.client import Loss, cross_entropy, cross_entropy_eval
from repfl.algorithms.engine.client_data import to_device
from repfl.algorithms.engine.params import Slice
from repfl.algorithms.engine.rng import splitmix64
from repfl.algorithms.math.masks import holders_mean, topk_mask


@hyperparameters
class HP:
    """How personal parts grow."""

    rate: float = param(
        0.25,
        "p: share of a tensor's shared entries that become personal at a time",
        ge=0,
        le=1,
        paper="in Appendix B, which we do not have; 0.25 in the released code",
        search={"uniform": [0.05, 0.5]},
    )
    limit: float = param(
        0.5,
        "alpha: a tensor's personal part grows while its share is below this; the last growth may"
        " exceed it",
        ge=0,
        le=1,
        paper="5.1: .05 .30 .50 .80; code 0.80",
        search={"uniform": [0.05, 0.8]},
    )
    every: int | None = param(
        None,
        "participations between two growths; none: 1, or 3 by the code's rules",
        ge=1,
        paper="Algorithms 1 and 3: 1; code 3",
    )
    mode: Literal["paper", "exact-cut", "code", "code-eval"] = param(
        "paper",
        "whose rules: `paper` is Algorithm 3; `exact-cut` ends the last growth exactly at the"
        " limit, which neither the paper nor its code does; `code` are the published code's"
        " (`CodesFedSelect`); `code-eval` also leaves batch norm in evaluation mode from the second"
        " round on, as the code's scoring does",
        paper="FedOBP's tables: code, every 3, limit 0.8",
        aliases=("mode", "compat"),
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
        paper="Table 3: A to D; their layers are in Appendix B, which we do not have",
    )
    moved_only: bool = param(
        True, "paper's rules: an entry that did not move at all stays shared (dead weights)"
    )
    weighting: Literal["uniform", "protocol"] = param(
        "uniform", "average over holders: each counts the same, or as the recipe weighs them"
    )


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
    needs=("epochs",),
    sends="shared entries and a bitmap of them, down and up",
    version=2,
    variants=(
        "mode=exact-cut",
        "mode=code",
        "mode=code, limit=0.8",
        "mode=code-eval",
        "select=least",
        "select=random",
        "select=layer, layer=A",
        "weighting=protocol",
    ),
    cost=1.9,
)
class FedSelect(Method[HP]):
    """Client i keeps the entries in its mask m_i for itself; every other entry is averaged over the
    clients that share it.

    u, v <- LocalAlt: in every epoch one pass over personal entries v, then one over shared entries
    u, each with a fresh optimiser;  theta <- mean of u over its holders, entry by entry;  in each
    tensor whose personal share is below alpha, m_i gains the share p of the shared entries that
    moved most, so that its last growth may exceed alpha.

    New personal entries start from this round's average. An entry that no participant shares keeps
    its value at the server. Batch-norm statistics are personal if the recipe says so. The paper
    scores clients after local training (`pre_agg`). Differences from published code:
    paper_tables/fedselect/README.md.
    """

    HP = HP

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        return CodesFedSelect if hp.mode in ("code", "code-eval") else cls

    def init(self, fed: Federation) -> State:
        first = torch.where(fed.communicated, fed.new_model(), fed.first_models())
        by_layer = self.hp.select == "layer"
        mask = fed.params.mask(self.layer_tensors(fed) if by_layer else [])
        return {
            "theta": fed.new_model(),
            "w": fed.client_rows(first),  # [N, D]
            "mask": fed.client_rows(mask[None]),
            "visits": torch.zeros_like(fed.all_clients),
        }

    def selectable(self, fed: Federation) -> list[Slice]:
        """Return the tensors whose entries can become personal."""
        return fed.params.trained

    def layer_tensors(self, fed: Federation) -> list[Slice]:
        name, layers = self.hp.layer, fed.params.layers
        if name in ("A", "B", "C", "D"):
            layer = layers["ABCD".index(name) * (len(layers) - 1) // 3]
            return [s for s in layer if s.kind in ("conv", "linear", "bias")]
        tensors = [s for s in fed.params.trained if s.name.startswith(name)]
        if not tensors:
            raise MethodError(
                f"fedselect: no layer is called {name!r}; take A, B, C, D or one of"
                f" {', '.join(s.name for s in fed.params)}"
            )
        return tensors

    def round(self, state: State, fed: Federation) -> State:
        mask = state["mask"][fed.active]  # [K, D]
        shared = fed.communicated & ~mask
        selectable = fed.params.mask(self.selectable(fed))
        by_layer = self.hp.select == "layer"
        position: dict[str, Any] = {} if by_layer else {"code": "bitmap", "domain": selectable}

        received = fed.down(state["theta"], shared, **position)
        start = torch.where(shared, received, state["w"][fed.active])
        end = self.local_alt(fed, start, mask, shared & fed.params.learnable)
        uniform = torch.ones(fed.K, dtype=fed.dtype, device=fed.device)
        weights = uniform if self.hp.weighting == "uniform" else fed.weights
        theta = holders_mean(fed.up(end, shared, **position), shared, weights, state["theta"])

        visits = state["visits"][fed.active]
        due, due_on_cpu = self.is_due(visits), self.is_due(fed.to_host(visits))
        if not by_layer and bool(due_on_cpu.any()):
            change = (end - self.compared(state, fed, start)).abs()
            mask = mask | (self.grow(fed, mask, change) & due[:, None])
        fed.count_mask("mask", mask)
        fed.log("personal", (mask & selectable).sum() / (fed.K * selectable.sum()))
        rows = {"w": torch.where(shared, theta, end), "visits": visits + 1, "mask": mask}
        new = {name: fed.scatter_rows(state[name], value) for name, value in rows.items()}
        return new | {"theta": theta}

    # -- local training ----------------------------------------------------------------------------

    def local_alt(self, fed: Federation, start: Tensor, personal: Tensor, shared: Tensor) -> Tensor:
        """Train by LocalAlt: in every epoch one pass over personal, then one over shared entries
        (Pillutla et al., ICML 2022)  [K, D].

        Clients that do not alternate make one pass per epoch, as FedAvg's or Local's do.
        """
        loss, alternates = self.loss(fed), self.alternates(fed, personal, shared)
        trained = start.clone()
        for alternating in (True, False):
            rows = [k for k in range(fed.K) if alternates[k] == alternating]
            if not rows:
                continue
            place = to_device(torch.tensor(rows), fed.device)
            params, own, other = start[place], personal[place], shared[place]
            with fed.as_active([fed.active_ids[k] for k in rows]):
                if not alternating:
                    params = fed.train(params, trainable=own | other, loss=loss)
                for turn in range(2 * fed.epochs if alternating else 0):
                    part = other if turn % 2 else own
                    params = fed.train(
                        params, trainable=part, epochs=1, first_epoch=turn, loss=loss
                    )
            trained[place] = params
        fed.trained = trained
        return trained

    def alternates(self, fed: Federation, personal: Tensor, shared: Tensor) -> list[bool]:
        """Return who alternates: clients for whom neither of the two is empty  [K]."""
        return [bool(both) for both in fed.to_host(personal.any(1) & shared.any(1))]

    def loss(self, fed: Federation) -> Loss:
        return cross_entropy

    # -- what becomes personal ---------------------------------------------------------------------

    def is_due(self, visits: Tensor) -> Tensor:
        """Return which clients' masks grow now, given how often they took part before  [K] bool."""
        return (visits + 1) % (self.hp.every or 1) == 0

    def compared(self, state: State, fed: Federation, start: Tensor) -> Tensor:
        """Return what trained models are compared with: here the start of the round  [K, D]."""
        return start

    def grow(self, fed: Federation, mask: Tensor, change: Tensor) -> Tensor:
        """Return masks with what becomes personal next, tensor by tensor  [K, D] bool."""
        drawn = [int(fed.rng("mask", client).integers(1 << 62)) for client in fed.active_ids]
        keys = to_device(torch.tensor(drawn), fed.device)
        out = mask.clone()
        for s in self.selectable(fed):
            own, moved = mask[:, s.place], change[:, s.place]
            random = self.hp.select == "random"
            score = splitmix64(keys, s.start, s.size).double().abs() if random else moved
            out[:, s.place] |= self.rule(own, score, moved > 0)
        return out

    def rule(self, own: Tensor, score: Tensor, moved: Tensor) -> Tensor:
        """Return the share p of shared entries with the highest (or lowest) score, in tensors whose
        personal share is below the limit  [K, n] bool.
        """
        size, personal = own.shape[1], own.sum(1)
        free = ~own & moved if self.hp.moved_only else ~own
        count = (self.hp.rate * (size - personal).double()).round().long().minimum(free.sum(1))
        if self.hp.mode == "exact-cut":
            count = count.minimum(int(self.hp.limit * size) - personal).clamp(min=0)
        else:
            count = torch.where(personal.double() / size < self.hp.limit, count, 0)
        score = -score if self.hp.select == "least" else score
        return topk_mask(score.masked_fill(~free, -torch.inf), count)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        own = state["mask"][fed.active] | ~fed.communicated
        return torch.where(own, state["w"][fed.active], state["theta"])


class CodesFedSelect(FedSelect):
    """The published code's rules: masks grow from the second participation on, in weights alone, by
    the change since they last grew, also at the limit itself, and take all that are equal; clients
    alternate even over nothing. `before` [N, D] are the models when masks last grew.
    """

    def init(self, fed: Federation) -> State:
        state = super().init(fed)
        return state | {"before": state["w"].clone()}

    def round(self, state: State, fed: Federation) -> State:
        due, before = self.is_due(state["visits"][fed.active]), state["before"][fed.active]
        new = super().round(state, fed)
        assert fed.trained is not None
        before = torch.where(due[:, None], fed.trained, before)
        return new | {"before": fed.scatter_rows(state["before"], before)}

    def selectable(self, fed: Federation) -> list[Slice]:
        return [s for s in fed.params.trained if s.name.endswith("weight")]

    def alternates(self, fed: Federation, personal: Tensor, shared: Tensor) -> list[bool]:
        return [True] * fed.K

    def loss(self, fed: Federation) -> Loss:
        evaluation_mode = self.hp.mode == "code-eval" and fed.round > 1
        return cross_entropy_eval if evaluation_mode else cross_entropy

    def is_due(self, visits: Tensor) -> Tensor:
        return (visits > 0) & (visits % (self.hp.every or 3) == 0)

    def compared(self, state: State, fed: Federation, start: Tensor) -> Tensor:
        return state["before"][fed.active]

    def rule(self, own: Tensor, score: Tensor, moved: Tensor) -> Tensor:
        """Return all entries that reach the sorted value at position round((1 - p) n) of n shared
        ones, if the limit allows  [K, n] bool.
        """
        score = -score if self.hp.select == "least" else score
        shared = (~own).sum(1)
        # shared entries come first
        ascending = score.masked_fill(own, torch.inf).sort(dim=1).values
        position = ((1 - self.hp.rate) * shared.double()).round().long()
        threshold = ascending.gather(1, position.clamp(max=own.shape[1] - 1)[:, None])
        allowed = (position < shared) & (own.sum(1).double() / own.shape[1] <= self.hp.limit)
        return (score >= threshold) & allowed[:, None]
