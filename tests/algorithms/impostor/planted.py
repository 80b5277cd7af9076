"""Mistakes that a GPU would mind, planted in the engine: each must be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from repfl.algorithms.core import data, feed, graphs, lanes, train
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.federation import Federation

Wrap = Callable[[Any], Callable[..., Any]]


class Fault(NamedTuple):
    """A change to something that the engine calls, and what must be found."""

    what: str
    kind: str
    owner: Any
    name: str
    wrap: Wrap

    def planted(self) -> AbstractContextManager[Any]:
        return patch.object(self.owner, self.name, self.wrap(getattr(self.owner, self.name)))


@contextmanager
def untidy() -> Iterator[None]:
    """Captures fail, and nobody closes what they have opened."""
    asks = patch.object(Chunk, "sgd", _asks(Chunk.sgd))
    with asks, patch.object(graphs.CudaLane, "_close", lambda self: None):
        yield


def _host_weights(mean: Any) -> Any:
    return lambda self, x, weights=None: mean(self, x.cpu(), self.weights)


def _numpy(mean: Any) -> Any:
    return lambda self, x, weights=None: (x.numpy(), mean(self, x, weights))[1]


def _in_any_order(mean: Any) -> Any:
    def summed(self: Any, x: Tensor, weights: Tensor | None = None) -> Tensor:
        place = torch.zeros_like(self.active)
        out = torch.zeros_like(x[:1]).index_add_(0, place, x * self.weights[:, None])
        return out[0]

    return summed


def _asks(sgd: Any) -> Any:
    def asking(self: Any, grads: Any, *args: Any, **more: Any) -> None:
        if float(next(iter(grads.values())).sum()) < float("inf"):
            sgd(self, grads, *args, **more)

    return asking


def _indexes(next_: Any) -> Any:
    return lambda self, ragged, steps=1: (self.place[[0]], next_(self, ragged, steps))[1]


def _copies(next_: Any) -> Any:
    return lambda self, ragged, steps=1: (
        torch.zeros(3).to(self.place.device),
        next_(self, ragged, steps),
    )[1]


def _nothing(inner: Any) -> Any:
    return lambda self: None


def _moves(reload: Any) -> Any:
    def reloaded(self: Any, other: Any) -> None:
        reload(self, other)
        self.models = {m: {n: t.clone() for n, t in p.items()} for m, p in self.models.items()}

    return reloaded


def _paceless(prepare: Any) -> Any:
    def prepared(self: Any, local: Any, fresh: Any) -> Any:
        local.pace = None
        return prepare(self, local, fresh)

    return prepared


def _replaced(reload: Any) -> Any:
    def reloaded(self: Any, plans: Any, sent: Any = None) -> bool:
        fits = reload(self, plans, sent)
        self.columns = self.columns.clone()
        return bool(fits)

    return reloaded


def _forgets(take: Any) -> Any:
    return lambda self, *args: (self.held.clear(), take(self, *args))[1]


KEPT: list[Any] = []


def _keeps(collect: Any) -> Any:
    def collected(self: Any, *args: Any) -> None:
        KEPT.append(next(iter(self.models.values())).clone())
        collect(self, *args)

    return collected


def _one_buffer(sent: Any) -> Any:
    buffer = torch.zeros(1 << 16, dtype=torch.uint8)

    def reused(tensor: Tensor, device: torch.device) -> Tensor:
        if device.type != "cuda" or tensor.is_cuda or not tensor.numel():
            return sent(tensor, device)
        with torch.inference_mode(False):
            pinned = PINNED.setdefault("buffer", buffer.pin_memory())
        size = tensor.numel() * tensor.element_size()
        pinned[:size] = tensor.contiguous().view(-1).view(torch.uint8)
        return pinned[:size].to(device, non_blocking=True).view(tensor.dtype).view(tensor.shape)

    return reused


PINNED: dict[str, Tensor] = {}


FAULTS = (
    Fault("weights stay on the host", "mismatch", Federation, "mean", _host_weights),
    Fault("numpy of a cuda tensor", "mismatch", Federation, "mean", _numpy),
    Fault("a sum in any order", "order", Federation, "mean", _in_any_order),
    Fault("a step asks the host", "refused", Chunk, "sgd", _asks),
    Fault("a step brings an index from the host", "refused", feed.Feed, "next", _indexes),
    Fault("a step brings numbers from the host", "refused", feed.Feed, "next", _copies),
    Fault("the server does not wait for lanes", "race", graphs.CudaLane, "join", _nothing),
    Fault("lanes do not wait for the server", "race", graphs.CudaLane, "fork", _nothing),
    Fault("a chunk leaves the memory that graphs know", "wrong", Chunk, "reload", _moves),
    Fault("a learning rate is recorded", "wrong", graphs.Player, "prepare", _paceless),
    Fault("graphs outlive their memory", "dangling", feed.Feed, "reload", _replaced),
    Fault("steps are recorded in every round", "captures", lanes.LaneMemory, "take", _forgets),
    Fault("memory grows", "grows", train.Rows, "collect", _keeps),
    Fault("pinned memory is used again too soon", "race", data, "sent", _one_buffer),
)
