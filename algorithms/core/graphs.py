"""Steps that are recorded once and played again: CUDA graphs, without which a GPU waits for the
host between kernels.

Every kind of step (full or short batch, gradient kept or not) is recorded before a lane's first
training, alone and in runs, and played from then on. Recording needs fixed addresses: what a step
binds anew is copied back to where it was. Clients that finish early keep their place in a chunk,
so that it keeps its records. A step that cannot be recorded, because it asks the host, runs as it
is for good; the result is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet, finalize

import torch
from torch import Tensor

from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.feed import Feed
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.train import Step

Play = Callable[[], None]
STEPS = (16, 4, 1)
"""Steps that one record may hold: the host issues a run of equal steps in few calls."""
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
                try:
                    graph.capture_end()
                except RuntimeError:
                    self._close()
                raise
            graph.capture_end()
        return graph

    def _close(self) -> None:
        """End what a failed capture has begun: before torch 2.15 its pool stays open, and takes
        all that this thread allocates from then on.
        """
        with suppress(RuntimeError, AttributeError):
            torch._C._cuda_endAllocateToPool(self.device.index or 0, self.pool)

    def fork(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def join(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class Kind(NamedTuple):
    """What distinguishes one record from another."""

    ragged: bool
    """Some batch is short, or a client of the chunk has finished."""
    keeps: bool
    """The gradient is kept."""
    steps: int
    """Steps that are played at once."""


class Player:
    """Makes the steps of one chunk, by playing records of them where it can."""

    def __init__(self, step: Step, feed: Feed, lane: Lane, wanted: Collection[Kind]) -> None:
        """`wanted`: what to record, if anything."""
        self.step, self.feed, self.lane = step, feed, lane
        self.wanted = sorted(wanted, key=lambda kind: -kind.steps)
        self.records: dict[Kind, tuple[Play, Params]] = {}
        self.home: Slots = {}
        """The memory that the records read and write."""
        self.refused = ""
        lane.players.add(self)

    def prepare(self, local: Chunk, fresh: Callable[[], Chunk]) -> Chunk:
        """Make a step of every kind unrecorded, as libraries want it, on numbers that are then put
        back, and record all kinds. Returns the chunk that is to train.
        """
        for ragged, keeps in {(kind.ragged, kind.keeps) for kind in self.wanted}:
            local.keeps_gradient = keeps
            self._make(local, Kind(ragged, keeps, 1))
        self.feed.place.zero_()
        start = fresh()
        if not local.takes(start):
            self.refused = CHANGES
            start.pace = local.pace
            return start
        local.reload(start)
        self._record(local)
        return local

    def __call__(self, local: Chunk, done: int, active: int, most: int) -> int:
        """One step after `done` others, or several at once; returns how many."""
        if self.lane.broken:
            for player in self.lane.players:
                player.forget()
            self.lane.broken = False
        if self.wanted and not self.records and not self.refused:
            self._record(local)
        ragged, keeps = self.feed.ragged(done), local.keeps_gradient
        alike = self.feed.alike(done, most)
        for kind in self.wanted:
            if kind[:2] == (ragged, keeps) and kind.steps <= alike and kind in self.records:
                play, local.kept = self.records[kind]
                play()
                return kind.steps
        self._make(local, Kind(ragged, keeps, 1))
        if self.home and not settle(local, self.home):
            self.forget()
            self.refused = CHANGES
        return 1

    def forget(self) -> None:
        """Drop all records."""
        self.records, self.home = {}, {}

    def _make(self, local: Chunk, kind: Kind) -> None:
        for batch in self.feed.next(kind.ragged, kind.steps):
            self.step(local, batch)

    def _record(self, local: Chunk) -> None:
        """Record every kind that is wanted, or note why that cannot be done."""
        home, kept, keeps = slots(local), local.kept, local.keeps_gradient
        for kind in self.wanted:
            local.keeps_gradient = kind.keeps

            def work(kind: Kind = kind) -> None:
                self._make(local, kind)
                if not settle(local, home):
                    raise RuntimeError(CHANGES)

            try:
                self.records[kind] = (self.lane.record(work), local.kept)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, NotImplementedError) as error:
                restore(local, home)
                self.forget()
                text = str(error)
                self.refused = text.splitlines()[0] if text else type(error).__name__
                break
            self.home = home
        local.kept, local.keeps_gradient = kept, keeps


CHANGES = "the step changes what the chunk holds"


def kinds(longest: int, width: int, *, short: bool, keeps: bool) -> set[Kind]:
    """What chunks of so many clients need records of, whose clients make `longest` steps at most
    and may have short batches.
    """
    runs = {steps for steps in STEPS if steps <= longest}
    found = {Kind(False, False, steps) for steps in runs}
    if short or width > 1:
        found |= {Kind(True, False, steps) for steps in (runs if width > 1 else {1})}
    return found | {Kind(kind.ragged, True, 1) for kind in found if keeps}


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
