"""Tensors that say they are on the GPU, and what is said of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

GPU, HOST = torch.device("cuda", 0), torch.device("cpu")


class Cuda(Tensor):
    """A tensor that says it is on the GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[attr-defined]
    device = property(lambda self: GPU)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]


def on_gpu(value: object) -> bool:
    return isinstance(value, Cuda)


def claim(value: Any) -> Any:
    """Say of every tensor in a value that it is on the GPU."""
    for tensor in tensors(value):
        if type(tensor) is Tensor:
            tensor.__class__ = Cuda
    return value


def leaves(value: Any) -> list[Any]:
    """What lists, tuples and dictionaries hold, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, Tensor)]


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same lists, tuples and dictionaries with other tensors."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: mapped(each, change) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        found = [mapped(each, change) for each in value]
        return found if isinstance(value, list) else tuple(found)
    return value


def memory_of(tensor: Tensor) -> int:
    """The name of the memory that a tensor lies in."""
    return int(tensor.untyped_storage()._cdata)


def span_of(tensor: Tensor) -> tuple[Any, int, int, bool]:
    """The storage of a tensor, from which byte to which it reaches, and whether with gaps."""
    size = tensor.element_size()
    start = tensor.storage_offset() * size
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    stop = start + (last + 1) * size if tensor.numel() else start
    return tensor.untyped_storage(), start, stop, tensor.numel() <= last


def bytes_of(storage: Any) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def version(tensor: Tensor) -> int:
    """How often a tensor has been written; inference tensors do not count."""
    with torch._C.DisableTorchFunction():
        return 0 if tensor.is_inference() else int(tensor._version)


def dense(tensor: Tensor) -> bool:
    """Whether a tensor fills its memory without gaps, in some order of its axes."""
    expected = 1
    strides = sorted(
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if size > 1
    )
    for stride, size in strides:
        if stride != expected:
            return False
        expected *= size
    return True


@contextmanager
def unwatched() -> Iterator[None]:
    """Nobody looks on inside."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        yield
