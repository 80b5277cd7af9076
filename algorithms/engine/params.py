"""One client's model as one flat vector of length D: where each named tensor lies, and masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["conv", "linear", "bias", "norm", "stat"]
"""conv and linear are weights; bias belongs to either; norm is an affine weight or bias of a
normalisation layer; stat is a running statistic (a buffer).
"""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Slice:
    """One named tensor and its place in the flat vector."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    head: bool
    start: int

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def stop(self) -> int:
        return self.start + self.size

    @property
    def place(self) -> slice:
        """Columns of the flat vector."""
        return slice(self.start, self.stop)


class Params:
    """Names, shapes and kinds of a model's tensors, in the module's order; masks over D."""

    def __init__(
        self,
        tensors: Iterable[tuple[str, tuple[int, ...], Kind, bool]],
        device: torch.device | str = "cpu",
    ) -> None:
        slices, start = [], 0
        for name, shape, kind, head in tensors:
            slices.append(Slice(name, shape, kind, head, start))
            start += prod(shape)
        self.slices: tuple[Slice, ...] = tuple(slices)
        self.size = start
        self.device = torch.device(device)

    def on(self, device: torch.device | str) -> Params:
        """Return the same with masks on another device."""
        return Params([(s.name, s.shape, s.kind, s.head) for s in self.slices], device)

    def __iter__(self) -> Iterator[Slice]:
        return iter(self.slices)

    def __getitem__(self, name: str) -> Slice:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Slice]:
        return {s.name: s for s in self.slices}

    # -- masks over D ------------------------------------------------------------------------------

    def select(self, condition: Callable[[Slice], bool]) -> Tensor:
        """Return the mask of all tensors that satisfy a condition  [D] bool."""
        return self.mask([s for s in self.slices if condition(s)])

    def mask(self, slices: Iterable[Slice]) -> Tensor:
        """Return the mask of the given tensors  [D] bool."""
        mask = torch.zeros(self.size, dtype=torch.bool, device=self.device)
        for s in slices:
            mask[s.place] = True
        return mask

    def where(
        self, *, kind: Kind | None = None, head: bool | None = None, name: str | None = None
    ) -> Tensor:
        """Return the mask of all tensors of a kind, of the head or the body, or of a name  [D]."""
        return self.mask(self.tensors(kind=kind, head=head, name=name))

    def tensors(
        self, *, kind: Kind | None = None, head: bool | None = None, name: str | None = None
    ) -> list[Slice]:
        """Return the tensors of a kind, of the head or the body, or of a name."""
        return [
            s
            for s in self.slices
            if kind in (None, s.kind) and head in (None, s.head) and name in (None, s.name)
        ]

    @cached_property
    def learnable(self) -> Tensor:
        """Everything that gradients reach: all but running statistics  [D] bool."""
        return ~self.stats

    @cached_property
    def stats(self) -> Tensor:
        """Running statistics  [D] bool."""
        return self.where(kind="stat")

    @cached_property
    def norm(self) -> Tensor:
        """Affine parameters of normalisation layers  [D] bool."""
        return self.where(kind="norm")

    @cached_property
    def head(self) -> Tensor:
        """The last linear layer  [D] bool."""
        return self.where(head=True)

    @cached_property
    def body(self) -> Tensor:
        """Everything but the head, running statistics included  [D] bool."""
        return ~self.head

    @cached_property
    def weights(self) -> list[Slice]:
        """Weights of convolutions and linear layers: no biases, no normalisation."""
        return [s for s in self.slices if s.kind in ("conv", "linear")]

    @cached_property
    def trained(self) -> list[Slice]:
        """All tensors that gradients reach."""
        return [s for s in self.slices if s.kind != "stat"]

    @cached_property
    def head_weight(self) -> Slice:
        """The last linear layer's weight  [classes, F]."""
        return next(s for s in self.slices if s.head and s.kind == "linear")

    @cached_property
    def head_bias(self) -> Slice:
        """The last linear layer's bias  [classes]."""
        return next(s for s in self.slices if s.head and s.kind == "bias")

    @cached_property
    def parameters(self) -> int:
        """Number of learnable scalars."""
        return sum(s.size for s in self.trained)

    @cached_property
    def layers(self) -> tuple[tuple[Slice, ...], ...]:
        """Convolutions and linear layers in order, each with its bias and the normalisation that
        follows it.
        """
        groups: list[list[Slice]] = []
        for s in self.slices:
            if s.kind in ("conv", "linear") or not groups:
                groups.append([])
            groups[-1].append(s)
        return tuple(map(tuple, groups))

    # -- named tensors -----------------------------------------------------------------------------

    def unflatten(self, flat: Tensor) -> Tensors:
        """Return copies of the named tensors of flat vectors  [..., D] -> [..., *shape].

        Copies, because views share one version counter that autograd checks, while batch norm
        changes its statistics in place. A single client's convolution weights are channels-last,
        the order in which convolutions read them.
        """
        named = {}
        for s in self.slices:
            part = flat[..., s.place].reshape(*flat.shape[:-1], *s.shape)
            if s.kind == "conv" and len(s.shape) == part.dim() == 4:
                # strides of a single channel decide which kernel PyTorch takes, hence the bits
                rows = part.permute(0, 2, 3, 1)
                rows = rows.clone() if rows.is_contiguous() else rows.contiguous()
                named[s.name] = rows.permute(0, 3, 1, 2)
            else:
                named[s.name] = part.clone(memory_format=torch.contiguous_format)
        return named

    def views(self, flat: Tensor) -> Tensors:
        """Return the named tensors of flat vectors, for reading  [..., D] -> [..., *shape]."""
        return {s.name: flat[..., s.place].view(*flat.shape[:-1], *s.shape) for s in self.slices}

    def flatten(self, named: Mapping[str, Tensor]) -> Tensor:
        """Return the flat vectors of named tensors; zeros for those that lack  -> [..., D]."""
        some = next(iter(named.items()))
        axes = some[1].dim() - len(self[some[0]].shape)
        lead = some[1].shape[:axes]
        parts = [
            named[s.name].reshape(*lead, s.size)
            if s.name in named
            else some[1].new_zeros(*lead, s.size)
            for s in self.slices
        ]
        return torch.cat(parts, dim=-1)


def true_slices(mask: Tensor) -> list[slice]:
    """Return where a mask [D] on the CPU is true, as slices."""
    edges = torch.nn.functional.pad(mask.to(torch.int8), (1, 1)).diff().nonzero().flatten().tolist()
    return [slice(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def columns(rows: Tensor, places: Sequence[slice]) -> Tensor:
    """Return some columns of rows [K, D]  [K, D']."""
    return torch.cat([rows[:, place] for place in places], 1) if places else rows[:, :0]


def write_columns(rows: Tensor, places: Sequence[slice], values: Tensor) -> Tensor:
    """Write values [K, D'] into some columns of rows [K, D], in place."""
    sizes = [place.stop - place.start for place in places]
    for place, part in zip(places, values.split(sizes, 1), strict=True):
        rows[:, place] = part
    return rows


def row_slices(rows: int, size: int = 16) -> Iterator[slice]:
    """Yield slices of a few rows, for work that would not fit for all clients at once."""
    return (slice(first, min(first + size, rows)) for first in range(0, rows, size))


def count_true(mask: Tensor) -> Tensor:
    """Count the true entries of a mask, or of each row  [..., D] -> [...]."""
    if mask.dim() == 1:
        return mask.sum()
    # summing all rows at once would first copy the whole mask as integers
    return torch.cat([mask[rows].sum(1) for rows in row_slices(len(mask))])
