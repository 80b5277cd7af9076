"""Calls below autograd: each is a kernel, may go on a tape, may add in an order that changes."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tests.algorithms.impostor.machine import Machine
from tests.algorithms.impostor.tensors import dense, tensors

RANDOM_ORDER = {
    "adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool2d_backward",
    "avg_pool3d_backward",
    "bincount",
    "_cdist_backward",
    "ctc_loss",
    "cumprod",
    "cumsum",
    "embedding_dense_backward",
    "grid_sampler_2d_backward",
    "histc",
    "index_add",
    "index_add_",
    "index_reduce_",
    "max_pool2d_with_indices_backward",
    "nll_loss2d",
    "nll_loss2d_backward",
    "put",
    "put_",
    "reflection_pad2d_backward",
    "renorm",
    "replication_pad2d_backward",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "upsample_bilinear2d_backward",
}
"""Kernels of CUDA that add numbers in any order."""
WHOLE_NUMBERS_ARE_FINE = {
    "bincount",
    "cumprod",
    "cumsum",
    "index_add",
    "index_add_",
    "scatter_add",
    "scatter_add_",
}
VIEWS = {"aten::_unsafe_view", "aten::_reshape_alias", "aten::detach", "aten::alias"}


class Kernels(TorchDispatchMode):
    """Counts kernels of the GPU and keeps tapes of captures."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        machine, kwargs = self.machine, kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        kernels = 0
        if machine.on_gpu:
            kernels = self._kernels(func, name, args)
            self._orders(name, args)
        if machine.capture is not None:
            if kernels:
                machine.report.operations[name] += kernels
            return machine.capture.note(func, args, kwargs, kernels)
        out = func(*args, **kwargs)
        if kernels:
            machine.report.count("launches", name, kernels)
            report = machine.report
            if report.meter is not None:
                work = report.meter(func, args, kwargs, out)
                report.issued[report.round, report.phase].append(work)
        return out

    def _kernels(self, func: Any, name: str, args: Any) -> int:
        """How many kernels a call is; a list of tensors that are laid out differently is one kernel
        for each.
        """
        returned = func._schema.returns
        view = returned and returned[0].alias_info and not returned[0].alias_info.is_write
        if view or func._schema.name in VIEWS:
            return 0
        if not name.startswith(("_foreach_", "_fused_")):
            return 1
        lists = [a for a in args if isinstance(a, (list, tuple)) and tensors(a)]
        alike = all(
            t.dtype == row[0].dtype and t.stride() == row[0].stride() and dense(t)
            for row in zip(*lists, strict=True)
            for t in row
        )
        return 1 if alike else len(lists[0])

    def _orders(self, name: str, args: Any) -> None:
        """Find sums whose order changes from run to run."""
        floats = any(t.is_floating_point() for t in tensors(args))
        adds = len(args) > 3 and args[3] is True
        if name in ("index_put_", "_index_put_impl_", "index_put") and adds and floats:
            self.machine.report.found("order", "index_put accumulates in an order of its own")
        if name not in RANDOM_ORDER or (not floats and name in WHOLE_NUMBERS_ARE_FINE):
            return
        if name == "max_pool2d_with_indices_backward" and not _overlapping(args):
            return
        if name.startswith("scatter_add") and args[2].shape[args[1]] <= 1:
            return  # one addend per place
        self.machine.report.found("order", f"{name} is not deterministic on CUDA")


def _overlapping(args: Any) -> bool:
    """Whether windows overlap in the one layout whose kernel then adds in any order."""
    _, x, size, stride = args[:4]
    last = x.dim() == 4 and x.stride(1) == 1 and not x.is_contiguous()
    return last and any(s < k for s, k in zip(stride or size, size, strict=False))
