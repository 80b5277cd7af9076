"""LoRA: the model stays as it is; clients train low-rank factors beside its linear layers."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, part, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import Tensors


@hyperparameters
class HP:
    """The factors, and which of them are shared."""

    rank: int = param(4, "rank of a layer's change", ge=1, search={"one of": [2, 4, 8]})
    scale: float = param(2.0, "factor of the change", gt=0, search={"log": [0.5, 8]})
    shared: Literal["both", "a"] = param(
        "both",
        "factors that the server averages; `a`: each client keeps its own B (FedSA-LoRA)",
        search={"one of": ["both", "a"]},
    )


@register(
    "lora",
    title="LoRA",
    paper="Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2022, arXiv 2106.09685",
    year=2022,
    family="partial",
    needs=("head",),
    sends="the shared factors, down and up; neither the base nor the head",
    variants=("shared=a",),
)
class LoRA(Method[HP]):
    """Every linear layer of the body, W [out, in], is used as W + scale B A with A [rank, in] and
    B [out, rank]. W and all else is frozen but the head H_i, each client's own:

        A_i, B_i, H_i <- SGD on F_i;   A <- sum_i p_i A_i;   B <- sum_i p_i B_i.

    A starts at random, B at zero, so that the first model is the base, which is in evaluation mode:
    the seed's initial model, or whatever `base` of a subclass returns. No published code has been
    compared: docs/methods/lora.md.
    """

    HP = HP
    server_rows = ("shared/*",)

    def base(self, fed: Federation) -> Tensor:
        """Return the frozen model, which all clients have from the start  [D]."""
        return fed.new_model()

    def initial(self, fed: Federation) -> Tensors:
        """Return what is trained: `a/NAME` and `b/NAME` of each layer, and `head/NAME`."""
        named, adapter = fed.params.unflatten(self.base(fed)), {}
        for s in fed.params.tensors(kind="linear", head=False):
            out, into = s.shape
            drawn = fed.rng(f"factor/{s.name}").uniform(-1, 1, (self.hp.rank, into))
            adapter[f"a/{s.name}"] = torch.from_numpy(drawn).to(named[s.name]) * into**-0.5
            adapter[f"b/{s.name}"] = named[s.name].new_zeros(out, self.hp.rank)
        return adapter | {f"head/{s.name}": named[s.name] for s in fed.params if s.head}

    def init(self, fed: Federation) -> State:
        adapter, shared = self.initial(fed), ("a/", "b/") if self.hp.shared == "both" else ("a/",)
        own = {f"own/{n}": fed.client_rows(t[None]) for n, t in adapter.items()}
        return own | {f"shared/{n}": t for n, t in adapter.items() if n.startswith(shared)}

    def round(self, state: State, fed: Federation) -> State:
        received = {n: fed.send("down", t) for n, t in part(state, "shared/").items()}
        end = self.train(fed, self.adapters(state, fed, received))
        fed.score("pre_agg", self.merged(fed, end))
        for name, rows in end.items():
            fed.scatter_rows(state[f"own/{name}"], rows)
            if name in received:
                state[f"shared/{name}"] = fed.mean(fed.send("up", rows))
        return state

    def adapters(self, state: State, fed: Federation, shared: Tensors) -> Tensors:
        """Return the active clients' adapters, a row for each in every tensor."""
        own = {name: rows[fed.active] for name, rows in part(state, "own/").items()}
        return own | {name: t.expand(fed.K, *t.shape) for name, t in shared.items()}

    def train(self, fed: Federation, adapters: Tensors, stream: str = "batches") -> Tensors:
        """Train adapters on the active clients' samples."""
        base, frozen = self.base(fed).expand(fed.K, -1), torch.zeros_like(fed.params.head)
        how: dict[str, Any] = {"trainable": frozen, "scored": False, "stream": stream}
        how |= {"extras": adapters, "learn": tuple(adapters)}
        return fed.train(base, loss=self.loss, keep=("extras",), **how).extras

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the cross-entropy of the adapted model."""
        model = model.eval().replace(self.adapted(dict(model.tensors), extras))
        return F.cross_entropy(model(batch.x), batch.y)

    def adapted(self, base: Tensors, adapter: Tensors) -> Tensors:
        """Return the tensors that differ from the base."""
        down, up = part(adapter, "a/"), part(adapter, "b/")
        return part(adapter, "head/") | {
            n: base[n] + self.hp.scale * up[n] @ a for n, a in down.items()
        }

    def merged(self, fed: Federation, adapters: Tensors) -> Tensor:
        """Return ordinary models, which have the factors in their weights  [K, D]."""
        base = fed.params.unflatten(self.base(fed).expand(fed.K, -1))
        return fed.params.flatten(base | self.adapted(base, adapters))

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return self.merged(fed, self.adapters(state, fed, part(state, "shared/")))

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train an adapter that starts from the shared factors."""
        start = self.adapters(self.init(fed), fed, part(state, "shared/"))
        return self.merged(fed, self.train(fed, start, "join"))
