"""Graphs as tapes: the calls below autograd that were made during a capture, and that a replay
makes again on the memory that they had.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import finalize

import torch
from torch import Tensor

from tests.algorithms.impostor.report import Work, site
from tests.algorithms.impostor.streams import DEFAULT
from tests.algorithms.impostor.tensors import (
    Cuda,
    bytes_of,
    leaves,
    mapped,
    memory_of,
    tensors,
    unwatched,
)

if TYPE_CHECKING:
    from tests.algorithms.impostor.machine import Machine


class Graph:
    """A CUDA graph; capturing does nothing, and what a capture yields is not there yet."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls: list[tuple[Any, Any, Any, list[Tensor | None]]] = []
        self.outside: dict[int, Tensor] = {}
        """Memory that was there before the capture, by one handle of the tape's on each."""
        self.where: dict[int, str] = {}
        self.inside: set[int] = set()
        self.before: list[tuple[Any, Tensor]] = []
        self.writes: set[int] = set()
        self.kernels, self.work = 0, list[Work]()
        self.broken = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        machine = self.machine
        if machine.clock.current == DEFAULT:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream")
        if machine.capture is not None:
            raise RuntimeError("captures do not nest")
        if machine.open_pool:
            machine.report.found("capture", "a failed capture has left its memory pool open")
        self.stream, machine.capture = machine.clock.current, self

    def capture_end(self) -> None:
        machine = self.machine
        machine.capture = None
        handles = {id(t): t for t in (*tensors(self.calls), *self.outside.values())}
        held = Counter(memory_of(t) for t in handles.values())
        machine.handles.update(held)
        finalize(self, machine.handles.subtract, held)
        if machine.clock.current != self.stream:
            machine.report.found("capture", "a capture ends on another stream than it began on")
        with unwatched():
            for storage, saved in reversed(self.before):
                bytes_of(storage).copy_(saved)
            for made in (t for *_, results in self.calls for t in results if t is not None):
                if made.is_floating_point():
                    made.fill_(float("nan"))
                elif made.dtype != torch.bool:
                    made.fill_(77)
        self.before = []
        machine.report.count("captures", f"{self.kernels} kernels")
        machine.report.count("nodes", "captured", self.kernels)
        machine.report.graphs.append(self.work)
        if self.broken:
            machine.open_pool = True
            raise RuntimeError("operation failed due to a previous error during capture")

    def replay(self) -> None:
        machine = self.machine
        machine.refuse_in_capture("a replay")
        spans = []
        for key, handle in self.outside.items():
            storage = handle.untyped_storage()
            users = torch._C._storage_Use_Count(storage._cdata)  # type: ignore[attr-defined]
            if users <= machine.handles[key] + 1:  # the tapes' handles and `storage`: nobody else
                machine.report.found(
                    "dangling",
                    f"a graph uses memory {tuple(handle.shape)} that the program has freed",
                    self.where[key],
                )
            spans.append((storage, 0, storage.nbytes(), False))
        machine.clock.use(spans, self.writes, "a graph")
        machine.report.count("replays", "graph")
        machine.report.count("played", "kernels", self.kernels)
        with unwatched():
            for func, args, kwargs, results in self.calls:
                for old, new in zip(results, leaves(func(*args, **kwargs)), strict=True):
                    if old is not None:
                        old.copy_(new)

    def reset(self) -> None:
        self.calls, self.outside = [], {}

    # -- writing down ------------------------------------------------------------------------------

    def note(self, func: Any, args: Any, kwargs: Any, kernels: int) -> Any:
        """Make a call during capture, and keep what makes it again."""
        given = tensors((args, kwargs))
        if not self.machine.on_gpu and not any(map(self._known, given)):
            return func(*args, **kwargs)  # the host's own business, which happens once
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._save(value)
        name = func._schema.name
        if "batch_norm" in name and "backward" not in name:
            self._save(args[3:5])  # running statistics change without a word of it
        taped_args, taped_kwargs = mapped((args, kwargs), self._handle)
        out = func(*args, **kwargs)
        known = {memory_of(t) for t in given}
        fresh = [
            t.detach() if isinstance(t, Tensor) and memory_of(t) not in known else None
            for t in leaves(out)
        ]
        for made in fresh:
            if made is not None:
                self.inside.add(memory_of(made))
                self.machine.clock.born(made.untyped_storage(), pooled=True).pooled = True
        if kernels or any(t is not None for t in fresh):
            self.calls.append((func, taped_args, taped_kwargs, fresh))
        self.kernels += kernels
        if kernels and self.machine.report.meter is not None:
            self.work.append(self.machine.report.meter(func, args, kwargs, out))
        return out

    def _known(self, tensor: Tensor) -> bool:
        return isinstance(tensor, Cuda) or memory_of(tensor) in self.machine.clock.memory

    def _save(self, value: Any) -> None:
        for tensor in tensors(value):
            key = memory_of(tensor)
            if key not in self.inside and key not in self.writes:
                self.writes.add(key)
                storage = tensor.untyped_storage()
                self.before.append((storage, bytes_of(storage).clone()))

    def _handle(self, tensor: Tensor) -> Tensor:
        """The tape's own handle on a tensor; numbers of the host are frozen, as a kernel's
        arguments are.
        """
        if not self._known(tensor) and not self.machine.on_gpu:
            return tensor.clone()
        held = tensor.detach()
        key = memory_of(tensor)
        if key not in self.inside and key not in self.outside:
            self.outside[key], self.where[key] = held, site()
        return held
