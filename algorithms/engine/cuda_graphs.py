"""A training step as a CUDA graph: recorded once in a training, then replayed.

A GPU computes a step of a small model in less time than Python takes to start it. PyTorch records
what a step starts; a replay starts it all at once, on the same memory, without Python. So a step
must be what `Step` says it is: it reads and writes the client, and nothing else. A step that
changes anything else, or that makes the GPU wait, is not recorded and runs as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repfl.algorithms.engine.batches import Feed
from repfl.algorithms.engine.client import ClientState
from repfl.algorithms.engine.params import Tensors

OFTEN = 4
"""Steps of the same shapes in one training from which on a record pays."""

Out = tuple[Tensors, Tensors]
"""The last gradient, and the rows that were collected."""
Body = Callable[[Feed], Out]
"""A step: it reads a feed, and changes the client that it was made for."""
Steps = Callable[[Hashable, Body, Feed, ClientState], Out]


class Graph(NamedTuple):
    """A recorded step, and the memory that it reads and writes."""

    replay: Callable[[], None]
    feed: Feed
    out: Out
    body: Body  # keeps what it reads where it is


class Replayed:
    """Runs the steps of one training; those that come often are recorded at their second time.

    Clients that train one after the other share the records: what a client holds is copied to the
    memory of the first one. A record lasts for one training only, since a step may read what its
    round has made, such as a learning rate.
    """

    def __init__(self, step: Callable[..., Any], keys: Sequence[Hashable]) -> None:
        """`keys` are the shapes of all steps to come."""
        self._step = _unwrapped(step)
        self._code = getattr(self._step, "__code__", self._step)  # the same in every round
        self._often = {key for key, times in Counter(keys).items() if times >= OFTEN}
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, Graph] = {}
        self._memory: ClientState = {}
        """The tensors that the records read and write."""
        self._holder: ClientState | None = None
        """The client that holds them now."""
        self._begun: ClientState | None = None
        """The last client that took a step as it is, and so has all that a step makes."""

    def __call__(self, key: Hashable, body: Body, feed: Feed, state: ClientState) -> Out:
        """Take a step, which changes `state`."""
        graph = self._graph(key, body, feed, state)
        if graph is None:
            before, outside = _held(state), _outside(self._step)
            out = body(feed)
            self._begun = state
            if not settled(state, before) and state is self._holder:
                self._graphs.clear()
            if not all(map(_unchanged, outside, _outside(self._step))):
                capture().refused.add(self._code)
            return out
        graph.feed.index.copy_(feed.index)
        for name, drawn in feed.draws.items():
            graph.feed.draws[name].copy_(drawn)
        graph.replay()
        last_grad, collected = graph.out
        return last_grad, {name: rows.clone() for name, rows in collected.items()}

    def _graph(self, key: Hashable, body: Body, feed: Feed, state: ClientState) -> Graph | None:
        """Return the record of a step; None if it runs as it is: the first time, so that all it
        needs has been made, or because it cannot be recorded.
        """
        here = capture()
        if key not in self._often or self._code in here.refused:
            return None
        if key not in self._seen:
            self._seen.add(key)
            return None
        if not self._graphs:
            if state is not self._begun:
                return None
            self._memory = _held(state)
        elif state is not self._holder and not moved(state, self._memory):
            return None
        self._holder = state
        if key not in self._graphs:
            graph = here.record(body, feed, state)
            if graph is None:
                here.refused.add(self._code)
                return None
            self._graphs[key] = graph
        return self._graphs[key]


class Capture:
    """The stream on which this process records, and the memory that records share."""

    def __init__(self) -> None:
        self.refused: set[object] = set()
        """Steps that cannot be recorded."""
        self.made = 0
        """Records so far."""
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._last: torch.cuda.CUDAGraph | None = None  # keeps the memory for the next one

    def record(self, body: Body, feed: Feed, state: ClientState) -> Graph | None:
        """Record a step without taking it; return None, and leave the state as it was, if that
        cannot be.
        """
        own = Feed(feed.index.clone(), {name: drawn.clone() for name, drawn in feed.draws.items()})
        before = _held(state)
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._stream.wait_stream(here)
        try:
            with torch.cuda.stream(self._stream):
                graph.capture_begin(self._pool, capture_error_mode="thread_local")
                try:
                    last_grad, collected = body(own)
                    if not settled(state, before):  # each replay would make another one
                        raise RuntimeError("a tensor is new, or has changed its shape")
                finally:
                    graph.capture_end()
        except Exception:  # of any kind: the step itself, run as it is, tells what is wrong
            with suppress(RuntimeError):
                torch.cuda.synchronize()
            state.clear()
            state.update(before)
            self._pool, self._last = torch.cuda.graph_pool_handle(), None
            return None
        here.wait_stream(self._stream)
        self._last, self.made = graph, self.made + 1
        return Graph(graph.replay, own, (dict(last_grad), dict(collected)), body)


@cache
def capture() -> Capture:
    """Return the capture of this process."""
    return Capture()


def _held(state: ClientState) -> ClientState:
    return {kind: dict(named) for kind, named in state.items()}


def settled(state: ClientState, before: ClientState) -> bool:
    """Copy tensors that a step has replaced to where they were, since there graphs look for them;
    return whether all have such a place.
    """
    fine, replaced = True, []
    for kind, named in state.items():
        for name, tensor in named.items():
            old = before.get(kind, {}).get(name)
            if old is None or old.shape != tensor.shape or old.dtype != tensor.dtype:
                fine = False
            elif old is not tensor:
                replaced.append((old, tensor.clone()))  # it may be the memory of another one
                named[name] = old
    for old, value in replaced:
        old.copy_(value)
    return fine


def moved(state: ClientState, memory: ClientState) -> bool:
    """Copy a client's tensors to the memory of a record, and have the client hold those; return
    False, and change nothing, if it holds others, such as before it has any momentum.
    """
    places, tensors = _flat(memory), _flat(state)
    if {at: (t.shape, t.dtype) for at, t in places.items()} != {
        at: (t.shape, t.dtype) for at, t in tensors.items()
    }:
        return False
    for (kind, name), place in places.items():
        if tensors[kind, name] is not place:
            state[kind][name] = place.copy_(tensors[kind, name])
    return True


def _flat(state: ClientState) -> dict[tuple[str, str], Tensor]:
    return {(kind, name): t for kind, named in state.items() for name, t in named.items()}


def _unwrapped(step: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(step, partial):
        step = step.func
    return step


def _outside(step: Callable[..., Any]) -> list[tuple[Any, int]]:
    """Return what a step can change beside the client: variables around it and attributes of its
    object, each with its length.
    """
    values = list(vars(getattr(step, "__self__", SimpleNamespace())).values())
    for cell in getattr(step, "__closure__", None) or ():
        with suppress(ValueError):  # nothing is in it yet
            values.append(cell.cell_contents)
    return [(each, len(each) if isinstance(each, (list, dict, set)) else 0) for each in values]


def _unchanged(before: tuple[Any, int], after: tuple[Any, int]) -> bool:
    return before[0] is after[0] and before[1] == after[1]
