"""Tensors that say they are on the GPU, and what is said of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
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


def spans_of(tensor: Tensor) -> list[tuple[Any, int, int, bool]]:
    """The storage of a tensor with every stretch of bytes that it has there, and whether with gaps:
    rows that lie apart are told apart, if they are few.
    """
    size, storage = tensor.element_size(), tensor.untyped_storage()
    shape, strides = list(tensor.shape), list(tensor.stride())
    starts = [tensor.storage_offset()] if tensor.numel() else []
    while shape and _reach(shape, strides) > prod(shape) and len(starts) * shape[0] <= 64:
        starts = [start + row * strides[0] for start in starts for row in range(shape[0])]
        shape, strides = shape[1:], strides[1:]
    reach = _reach(shape, strides)
    gaps = reach > prod(shape)
    return [(storage, start * size, (start + reach) * size, gaps) for start in starts]


def _reach(shape: list[int], strides: list[int]) -> int:
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))


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
