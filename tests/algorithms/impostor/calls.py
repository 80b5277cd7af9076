"""Calls of PyTorch: where each computes, what makes the host wait, and what no GPU would take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tests.algorithms.impostor.machine import Machine
from tests.algorithms.impostor.tensors import (
    GPU,
    HOST,
    claim,
    leaves,
    memory_of,
    on_gpu,
    spans_of,
    tensors,
    version,
)

ASKS = {
    *("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__"),
    *("nonzero", "argwhere", "masked_select", "equal", "allclose", "unique", "is_nonzero"),
    *("unique_consecutive", "bincount", "__contains__", "__repr__", "__format__", "svd", "eigh"),
    *("eig", "linalg_svd", "linalg_eigh", "linalg_eig", "linalg_inv", "linalg_solve", "inverse"),
    *("linalg_cholesky", "cholesky", "lstsq"),
}
"""Calls that bring something to the host."""
NUMBERS = {"tolist", "item", "__bool__", "__int__", "__float__", "__index__", "equal", "allclose"}
HOST_ONLY = {"numpy", "__array__", "share_memory_"}
STRICT = {
    *("cat", "stack", "hstack", "vstack", "gather", "scatter", "scatter_", "scatter_add_"),
    *("index_select", "index_add_", "matmul", "__matmul__", "bmm", "mm", "mv", "addmm", "baddbmm"),
    *("conv2d", "linear", "kthvalue", "linalg_solve_ex", "cdist", "cross_entropy", "batch_norm"),
    *("group_norm", "masked_scatter", "take_along_dim", "one_hot", "bincount", "dot"),
}
"""Calls that refuse even numbers of the host."""
ASKS_FOR_NUMBERS = {"tensor", "arange", "full", "zeros", "ones", "linspace"}
SIMPLE = {
    *("shape", "dtype", "requires_grad", "is_leaf", "ndim", "layout", "itemsize", "_version"),
    *("dim",),
    *("size", "stride", "__len__", "numel", "nelement", "is_floating_point", "is_contiguous"),
    *("element_size", "untyped_storage", "data_ptr", "storage_offset", "is_complex", "names"),
    *("is_inference", "is_sparse", "is_quantized", "is_meta", "is_nested", "output_nr", "grad_fn"),
    *("nbytes", "__hash__", "ndimension", "is_signed", "_backward_hooks", "is_conj", "is_neg"),
    *("retain_grad", "type"),
}
"""Calls that look at a tensor's outside only."""


class Calls(TorchFunctionMode):
    """Stands between the program and PyTorch."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = _name(func), dict(kwargs or {})
        if name in SIMPLE:
            return self._run(func, args, kwargs)
        special = getattr(self, f"on_{name}", None)
        if special is not None:
            return special(func, args, kwargs)
        return self.compute(func, name, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any, gpu: bool = False) -> Any:
        before, self.machine.on_gpu = self.machine.on_gpu, gpu
        try:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        finally:
            self.machine.on_gpu = before

    # -- calls that are nothing special ------------------------------------------------------------

    def compute(self, func: Any, name: str, args: Any, kwargs: Any, strict: bool = True) -> Any:
        wanted = _device(kwargs.get("device"))
        if wanted is not None:
            kwargs["device"] = HOST
        given = tensors((args, kwargs))
        cuda = [t for t in given if on_gpu(t)]
        if cuda:
            self._waits(name, args, kwargs)
            if strict:
                self._mixed(name, given)
        here = self._here(name, given, cuda, wanted)
        before = [(t, version(t)) for t in (cuda if here else given)]
        out = self._run(func, args, kwargs, gpu=here)
        if not here:
            for t, then in before if self.machine.pinned else ():
                if version(t) != then:
                    self.machine.host_writes(t)
            return out
        if name in NUMBERS:
            made: list[Tensor] = []
        elif name == "__iter__":
            out = iter(claim(list(out)))
            made = []
        else:
            made = tensors(claim(out))
        self._use(before, made, name)
        return out

    def _waits(self, name: str, args: Any, kwargs: Any) -> None:
        """Note a call on the GPU that the host cannot go on without."""
        report = self.machine.report
        if name in HOST_ONLY:
            report.found("mismatch", f"{name}() of a cuda tensor")
        picks = name == "where" and len(args) == 1
        counts = (
            name == "repeat_interleave" and kwargs.get("output_size") is None and on_gpu(args[-1])
        )
        if name in ASKS or picks or counts:
            self.machine.waits(name, copies=True)

    def _mixed(self, name: str, given: list[Tensor]) -> None:
        for t in given:
            if not on_gpu(t) and (t.dim() > 0 or name in STRICT):
                self.machine.report.found(
                    "mismatch", f"{name}: tensors of cuda and of the cpu {tuple(t.shape)}"
                )
                return

    def _here(
        self, name: str, given: list[Tensor], cuda: list[Tensor], wanted: torch.device | None
    ) -> bool:
        """Whether a call computes on the GPU."""
        copied = name in ("tensor", "as_tensor", "new_tensor", "asarray")
        if wanted is None:
            if name in ASKS_FOR_NUMBERS and cuda:
                self.machine.waits(f"{name} of numbers on the device", copies=True)
                return False
            return bool(cuda)
        if wanted.type != "cuda":
            return False
        if copied and not cuda:
            self.machine.waits(f"{name} from pageable memory", copies=True)
        elif name in ASKS_FOR_NUMBERS - {"tensor"} and cuda:
            self.machine.waits(f"{name} of a size on the device", copies=True)
        return True

    def _use(self, before: list[tuple[Tensor, int]], made: list[Tensor], name: str) -> None:
        """Tell the clock what was read and what was written."""
        clock = self.machine.clock
        if self.machine.capture is not None:
            return  # the graph is what uses memory
        writes = {memory_of(t) for t, then in before if version(t) != then}
        writes |= {memory_of(t) for t in made if memory_of(t) not in clock.memory}
        if name.endswith("_") and not name.endswith("__") and before:
            writes.add(memory_of(before[0][0]))
        given = [t for t, _ in before]
        if made and not writes and set(map(memory_of, made)) <= set(map(memory_of, given)):
            return  # a view
        spans = [span for t in (*given, *made) for span in spans_of(t)]
        clock.use({(span[0]._cdata, *span[1:]): span for span in spans}.values(), writes, name)

    # -- moving ------------------------------------------------------------------------------------

    def on_to(self, func: Any, args: Any, kwargs: Any) -> Any:
        other = kwargs.pop("other", None)
        target, rest = _device(kwargs.pop("device", None)), []
        for value in args[1:]:
            if isinstance(value, Tensor):
                other = value
            elif _device(value) is not None:
                target = _device(value)
            else:
                rest.append(value)
        if other is not None:
            target, rest = other.device, [other.dtype, *rest]

        def change(t: Tensor) -> Tensor:
            return t.to(*rest, **kwargs) if rest or kwargs else t

        return self._move(args[0], target, change, bool(kwargs.get("non_blocking")))

    def on_cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self._move(args[0], HOST, lambda t: t)

    def on_cuda(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self._move(args[0], GPU, lambda t: t)

    def on_pin_memory(self, func: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            made = args[0].clone(memory_format=torch.contiguous_format)
        self.machine.pinned[memory_of(made)] = None
        return made

    def _move(
        self,
        t: Tensor,
        target: torch.device | None,
        change: Callable[[Tensor], Tensor],
        non_blocking: bool = False,
    ) -> Tensor:
        here = on_gpu(t)
        there = here if target is None else target.type == "cuda"
        if here == there:
            if here:
                return self.compute(lambda x: change(x), "to", (t,), {})
            with torch._C.DisableTorchFunction():
                return change(t)
        if there and non_blocking and memory_of(t) in self.machine.pinned:
            self.machine.travels(t)
        else:
            if here and non_blocking:
                self.machine.report.found("race", "the host may read before the copy is over")
            self.machine.waits("upload" if there else "download", copies=True)
        if here:
            self._use([(t, version(t))], [], "to")
        with torch._C.DisableTorchFunction():
            out = change(t)
            out = out.clone() if memory_of(out) == memory_of(t) else out
        if there:
            self._use([], [claim(out)], "to")
        elif type(out) is not Tensor:
            out.__class__ = Tensor
        return out

    def on_copy_(self, func: Any, args: Any, kwargs: Any) -> Any:
        into, source = args[:2]
        if isinstance(source, Tensor) and on_gpu(into) != on_gpu(source):
            loose = len(args) > 2 or kwargs.get("non_blocking")
            if on_gpu(into) and loose and memory_of(source) in self.machine.pinned:
                self.machine.travels(source)
            else:
                self.machine.waits("upload" if on_gpu(into) else "download", copies=True)
        if not on_gpu(into):
            return self._run(func, args, kwargs)
        return self.compute(func, "copy_", args, kwargs, strict=False)

    def on__foreach_copy_(self, func: Any, args: Any, kwargs: Any) -> Any:
        for into, source in zip(args[0], args[1], strict=True):
            if on_gpu(into) != on_gpu(source):
                self.machine.waits("upload" if on_gpu(into) else "download", copies=True)
        return self.compute(func, "_foreach_copy_", args, kwargs, strict=False)

    # -- indexing ----------------------------------------------------------------------------------

    def on___getitem__(self, func: Any, args: Any, kwargs: Any) -> Any:
        t, index = args
        self._indexes(t, index)
        if on_gpu(t) and _masks(index):
            self.machine.waits("an index that is a mask", copies=True)
        return self.compute(func, "__getitem__", args, kwargs, strict=False)

    def on___setitem__(self, func: Any, args: Any, kwargs: Any) -> Any:
        t, index, value = args
        listed, tensor = self._indexes(t, index), isinstance(value, Tensor)
        if on_gpu(t):
            self._assigns(index, value, listed)
        elif tensor and on_gpu(value):
            if listed:
                self.machine.report.found("mismatch", "cuda values by an index into a cpu tensor")
            self.machine.waits("download", copies=True)
        if listed or not on_gpu(t):
            return self.compute(func, "__setitem__", args, kwargs, strict=False)
        part = claim(self._run(Tensor.__getitem__, (t, index), {}))
        write = Tensor.copy_ if tensor else Tensor.fill_
        return self.compute(write, write.__name__, (part, value), {}, strict=False)

    def _assigns(self, index: Any, value: Any, listed: bool) -> None:
        """Note what an assignment to a cuda tensor costs."""
        tensor = isinstance(value, Tensor)
        number = not tensor or (not on_gpu(value) and value.dim() == 0)
        masks = _masks(index)
        if masks and not (number and len(masks) == len(_parts(index))):
            self.machine.waits("an index that is a mask", copies=True)
        if tensor and not on_gpu(value):
            if value.dim() > 0 and listed:
                self.machine.report.found("mismatch", "cpu values by an index into a cuda tensor")
            else:
                self.machine.waits("upload", copies=True)
        elif number and listed and not masks:
            self.machine.waits("a number that goes where an index says", copies=True)

    def _indexes(self, t: Tensor, index: Any) -> bool:
        """Note what an index costs; tells whether it lists places."""
        listed = False
        for part in _parts(index):
            if isinstance(part, (list, np.ndarray)):
                listed = True
                if on_gpu(t):
                    self.machine.waits("an index from the host", copies=True)
            elif isinstance(part, Tensor):
                number = part.dim() == 0 and part.dtype != torch.bool
                listed |= not number
                if number and on_gpu(part):
                    self.machine.waits("an index that is a number on the device", copies=True)
                elif not number and on_gpu(t) and not on_gpu(part):
                    self.machine.waits("an index from the host", copies=True)
                elif not on_gpu(t) and on_gpu(part):
                    self.machine.report.found("mismatch", "a cuda index into a cpu tensor")
        return listed

    # -- hooks -------------------------------------------------------------------------------------

    def on_register_hook(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, inner = args
        here = on_gpu(tensor)

        def hook(grad: Tensor) -> Any:  # holds no tensor: that would keep itself alive
            with Calls(self.machine):
                return inner(claim(grad) if here else grad)

        return self._run(func, (tensor, hook), kwargs)

    def on_get_device(self, func: Any, args: Any, kwargs: Any) -> int:
        return 0 if on_gpu(args[0]) else -1


def _name(func: Any) -> str:
    name = getattr(func, "__name__", "?")
    if name in ("__get__", "__set__"):
        return str(getattr(func.__self__, "__name__", name))
    return str(name)


def _device(value: Any) -> torch.device | None:
    """A device, if a value names one."""
    if isinstance(value, torch.device):
        return value
    if isinstance(value, str) and value.split(":")[0] in ("cuda", "cpu", "meta"):
        return torch.device(value)
    return None


def _parts(index: Any) -> list[Any]:
    """The parts of an index that choose something."""
    parts = index if isinstance(index, tuple) else (index,)
    return [
        p for p in parts if p is not Ellipsis and not (isinstance(p, slice) and p == slice(None))
    ]


def _masks(index: Any) -> list[Any]:
    return [p for p in leaves(_parts(index)) if on_gpu(p) and p.dtype == torch.bool]
