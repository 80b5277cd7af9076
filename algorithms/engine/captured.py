"""A training step as a CUDA graph: recorded once in a training, then replayed.

A GPU computes a step of a small model in less time than Python takes to start it. PyTorch records
what a step starts; a replay starts it all at once, on the same memory. So a step must be what
`Step` says it is: it reads and writes the client, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

import torch

from repfl.algorithms.engine.batches import Feed
from repfl.algorithms.engine.client import State
from repfl.algorithms.engine.params import Tensors

OFTEN = 4
"""Steps of the same shapes in one training from which on a record pays."""

Out = tuple[Tensors, Tensors]
"""The last gradient, and the rows that were collected."""
Body = Callable[[Feed], Out]
"""A step: it reads a feed, and changes the state that it was made for."""
Steps = Callable[[Hashable, Body, Feed], Out]


class Graph(NamedTuple):
    """A recorded step, and the memory that it reads and writes."""

    replay: Callable[[], None]
    feed: Feed
    out: Out


class Replayed:
    """Runs the steps of one training; those that come often are recorded at their second time."""

    def __init__(self, step: Callable[..., Any], state: State, keys: Sequence[Hashable]) -> None:
        """`keys` are the shapes of all steps to come, `state` what they change."""
        self._state, self._code = state, _code(step)
        self._often = {key for key, times in Counter(keys).items() if times >= OFTEN}
        self._graphs: dict[Hashable, Graph | None] = {}

    def __call__(self, key: Hashable, body: Body, feed: Feed) -> Out:
        """Take a step."""
        here = recorder()
        if key not in self._often or self._code in here.refused:
            return body(feed)
        if key not in self._graphs:
            self._graphs[key] = None  # run once, so that all it needs is there
            return body(feed)
        graph = self._graphs[key]
        if graph is None:
            graph = self._graphs[key] = here.record(body, feed, self._state)
            if graph is None:
                here.refused.add(self._code)
                return body(feed)
        graph.feed.index.copy_(feed.index)
        for name, drawn in feed.draws.items():
            graph.feed.draws[name].copy_(drawn)
        graph.replay()
        last_grad, collected = graph.out
        return last_grad, {name: rows.clone() for name, rows in collected.items()}


class Recorder:
    """The stream on which this process records, and the memory that records share."""

    def __init__(self) -> None:
        self.refused: set[object] = set()
        """Steps that cannot be recorded, since they make the GPU wait, for instance."""
        self.made = 0
        """Records so far."""
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._last: torch.cuda.CUDAGraph | None = None  # keeps the memory for the next one

    def record(self, body: Body, feed: Feed, state: State) -> Graph | None:
        """Record a step without taking it; return None, and leave the state as it was, if that
        cannot be.
        """
        own = Feed(feed.index.clone(), {name: drawn.clone() for name, drawn in feed.draws.items()})
        before = {kind: dict(named) for kind, named in state.items()}
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._stream.wait_stream(here)
        try:
            with torch.cuda.stream(self._stream):
                graph.capture_begin(self._pool, capture_error_mode="thread_local")
                try:
                    last_grad, collected = body(own)
                    _settle(state, before)
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
        return Graph(graph.replay, own, (dict(last_grad), dict(collected)))


@cache
def recorder() -> Recorder:
    """Return the recorder of this process."""
    return Recorder()


def _settle(state: State, before: State) -> None:
    """Copy tensors that a step has replaced to where they were, so that the next step finds them.

    A tensor that was not there, or had another shape, would be new in every replay: refuse.
    """
    for kind, named in state.items():
        for name, tensor in named.items():
            old = before[kind][name]
            if old is not tensor:
                if old.shape != tensor.shape or old.dtype != tensor.dtype:
                    raise RuntimeError(f"{kind}/{name} has changed its shape")
                old.copy_(tensor)
                named[name] = old


def _code(step: Callable[..., Any]) -> object:
    """Return what is the same in every round of a step that is defined within one."""
    while isinstance(step, partial):
        step = step.func
    return getattr(step, "__code__", step)
