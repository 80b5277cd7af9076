"""A stand-in for CUDA graphs on a CPU: it records the operations of a step and plays exactly these
again.

Like a CUDA graph it knows nothing of the Python that issued them, reads and writes memory where it
was, does nothing while recording, and refuses whatever asks the host for a value.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ASKS_THE_HOST = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
    "repeat_interleave",
    "equal",
}


class Recorder(TorchDispatchMode):
    """Writes down every operation below autograd, and what memory it changed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.before: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        if name in ASKS_THE_HOST or (name in ("index", "index_put_") and _picks_by_mask(args)):
            raise RuntimeError(f"operation {name} is not permitted while recording")
        for place, argument in enumerate(func._schema.arguments):
            if (
                argument.alias_info is not None
                and argument.alias_info.is_write
                and place < len(args)
            ):
                self.before += [
                    (t, t.clone()) for t in tree_leaves(args[place]) if isinstance(t, Tensor)
                ]
        if name == "native_batch_norm":  # changes its running statistics without saying so
            self.before += [(t, t.clone()) for t in args[3:5]]
        out = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, out))
        return out


def _picks_by_mask(args: Any) -> bool:
    return any(isinstance(t, Tensor) and t.dtype == torch.bool for t in tree_leaves(args[1]))


class TapeLane:
    """A lane without a device: what it records are lists of operations."""

    recorded = 0
    played = 0

    def __init__(self, records: bool = True) -> None:
        self.records = records
        self.broken, self.players = False, WeakSet[Any]()

    def current(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        if not self.records:
            raise RuntimeError("this lane does not record")
        recorder = Recorder()
        try:
            with recorder:
                work()
        finally:
            with torch.no_grad():
                for tensor, value in reversed(recorder.before):
                    tensor.copy_(value)  # recording does nothing
        TapeLane.recorded += 1
        return lambda: _play(recorder.calls)

    def fork(self) -> None:
        pass

    def join(self) -> None:
        pass


@torch.no_grad()
def _play(calls: list[tuple[Any, Any, Any, Any]]) -> None:
    """The operations again, on the memory that they had the first time."""
    TapeLane.played += 1
    for func, args, kwargs, out in calls:
        given = {_memory(t) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
            if (
                isinstance(old, Tensor) and _memory(old) not in given
            ):  # neither a view nor changed in place
                old.copy_(new)


def _memory(t: Tensor) -> int:
    return t.untyped_storage()._cdata
