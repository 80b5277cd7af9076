"""Steps that are recorded once and played again: CUDA graphs, without which a GPU waits for the
host between kernels.

A step of a given kind (so many clients, full or short batch, gradient kept or not) runs as it is
the first time, is recorded the second time and played from then on. Recording needs fixed
addresses: what a step binds anew is copied back to where it was. A step that cannot be recorded,
because it asks the host, runs as it is for good; the result is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol
from weakref import WeakSet, finalize

import torch
from torch import Tensor

from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.feed import Feed
from repfl.algorithms.core.train import Step

Play = Callable[[], None]
Kind = tuple[int, bool, bool]
"""How many clients are active, whether a batch is short, whether the gradient is kept."""


WORTH = 6
"""Steps that must be ahead for a record to pay that serves one local training only."""


class Lane(Protocol):
    """An order of execution of its own on a device."""

    broken: bool
    """No record of this lane may be played any more."""
    players: WeakSet[Player]
    """Who may have records of this lane."""

    def current(self) -> AbstractContextManager[Any]:
        """Work issued inside goes to this lane."""

    def record(self, work: Callable[[], None]) -> Play:
        """What does the work each time it is called; recording itself does nothing."""

    def fork(self) -> None:
        """Let this lane wait for what the caller has issued."""

    def join(self) -> None:
        """Let the caller wait for what this lane was given."""


def _workspaces_die() -> bool:
    """Whether the end of one graph takes cuBLAS's workspace from the others of its stream, as it
    does where PyTorch caches that.
    """
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return release < (2, 15) or os.environ.get("TORCH_CUBLAS_WORKSPACE_CACHE", "0") not in ("", "0")


class CudaLane:
    """A CUDA stream whose graphs share one memory pool."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.broken, self.players = False, WeakSet[Player]()
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.anchor = self._captured(
            lambda: torch.zeros(1, device=device)
        )  # a pool without any graph cannot be used again

    def current(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self.stream)

    def record(self, work: Callable[[], None]) -> Play:
        graph = self._captured(work)
        if _workspaces_die():
            finalize(graph, self._break)
        return graph.replay

    def _break(self) -> None:
        self.broken = True

    def _captured(self, work: Callable[[], object]) -> torch.cuda.CUDAGraph:
        graph = (
            torch.cuda.CUDAGraph()
        )  # not torch.cuda.graph: that one collects garbage and waits for the whole device
        with torch.cuda.stream(self.stream):
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                work()
            except BaseException:
                with suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph

    def fork(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def join(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class Player:
    """Makes the steps of one chunk, by playing records of them where it can."""

    def __init__(self, step: Step, feed: Feed, lane: Lane, lasting: bool) -> None:
        self.step, self.feed, self.lane, self.lasting = step, feed, lane, lasting
        self.met: set[Kind] = set()
        self.records: dict[Kind, tuple[Play, dict[str, Tensor]]] = {}
        self.home: Slots = {}
        """The memory that the records read and write."""
        self.refused = ""
        lane.players.add(self)

    def __call__(self, local: Chunk, done: int, active: int) -> None:
        """The step after `done` others, with the first `active` clients."""
        kind = (active, self.feed.ragged(done, active), local.keeps_gradient)
        if self.lane.broken:
            for player in self.lane.players:
                player.forget()
            self.lane.broken = False
        if kind not in self.records:
            self._at_home(local)
            worth = self.lasting or self.feed.left(done, active) >= WORTH
            if kind in self.met and worth and not self.refused:
                self._record(local, kind)
        if kind in self.records:
            play, local.kept = self.records[kind]
            play()
        else:
            self.met.add(kind)
            self._make(local, kind)
            if self.home and not settle(local, self.home):
                self.forget()

    def forget(self) -> None:
        """Drop all records."""
        self.records, self.home = {}, {}

    def _at_home(self, local: Chunk) -> None:
        """Forget records of memory that the chunk has left, as it does when clients finish."""
        now = slots(local) if self.home else {}
        if any(now.get(key) is not tensor for key, tensor in self.home.items()):
            self.forget()

    def _make(self, local: Chunk, kind: Kind) -> None:
        active, ragged, _ = kind
        self.step(local, self.feed.next(active, ragged))

    def _record(self, local: Chunk, kind: Kind) -> None:
        """Record a kind of step, or note why that cannot be done."""
        home, kept = slots(local), local.kept

        def work() -> None:
            self._make(local, kind)
            if not settle(local, home):
                raise RuntimeError("the step changes what the chunk holds")

        try:
            play = self.lane.record(work)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError) as error:
            restore(local, home)
            local.kept, self.refused = (
                kept,
                str(error).splitlines()[0] if str(error) else type(error).__name__,
            )
        else:
            self.records[kind], self.home = (play, local.kept), home


# -- where a chunk keeps its tensors ---------------------------------------------------------------


Slots = dict[tuple[str, str, str], Tensor]
"""Every tensor of a chunk by where it is bound: (which dictionary, which entry, which name)."""


def slots(local: Chunk) -> Slots:
    """All tensors that a step may have changed."""
    found: Slots = {
        ("models", m, n): t for m, named in local.models.items() for n, t in named.items()
    }
    found |= {("extras", name, ""): t for name, t in local.extras.items()}
    found |= {("masks", name, ""): t for name, t in local.masks.items() if t is not None}
    return found | {
        ("buffers", of, str(place)): t
        for of, held in local.buffers.items()
        for place, t in enumerate(held)
    }


def restore(local: Chunk, tensors: Slots) -> None:
    """Bind the given tensors where they were."""
    for (kind, entry, name), tensor in tensors.items():
        if kind == "models":
            local.models[entry][name] = tensor
        elif kind == "buffers":
            local.buffers[entry][int(name)] = tensor
        else:
            getattr(local, kind)[entry] = tensor


def settle(local: Chunk, home: Slots) -> bool:
    """Copy what has been bound anew to where it was, and bind that again; tells whether the chunk
    still holds the same things.
    """
    now = slots(local)
    if now.keys() != home.keys() or any(now[key].shape != home[key].shape for key in home):
        return False
    moved = [key for key in home if now[key] is not home[key]]
    old = {id(tensor) for tensor in home.values()}
    values = [
        now[key].clone() if id(now[key]) in old else now[key] for key in moved
    ]  # two names may have changed places
    for key, value in zip(moved, values, strict=True):
        home[key].copy_(value)
    restore(local, home)
    return True
