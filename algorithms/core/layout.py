"""Flat vectors and named tensors: where each part of a model lives in its one vector of length
D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from repfl.algorithms.core.data import sent

Kind = Literal["conv", "linear", "bias", "norm", "stat"]
"""conv and linear are weights; bias belongs to either; norm is an affine pair's weight or bias;
stat is a running statistic (a buffer).
"""

Params = Mapping[str, Tensor]
"""Named tensors with the client axis in front: [K, *shape]."""
Tensors = dict[str, Tensor]
"""The same, to be changed."""


class Single(Params):
    """One client's tensors as `bare` ones without the client axis, which they get where it is
    asked for.
    """

    def __init__(self, bare: Tensors) -> None:
        self.bare = bare

    def __getitem__(self, name: str) -> Tensor:
        return self.bare[name].unsqueeze(0)

    def __iter__(self) -> Iterator[str]:
        return iter(self.bare)

    def __len__(self) -> int:
        return len(self.bare)

    def __or__(self, more: Params) -> Tensors:
        return {**self, **more}


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


class Layout:
    """The names, shapes and kinds of a model's tensors, in order, and masks over its flat
    vector.
    """

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
        self._device = device

    @cached_property
    def _inside(self) -> Any:
        """By mask: its version, and where tensors begin in it."""
        return WeakIdKeyDictionary()

    @cached_property
    def _outside(self) -> Any:
        """By mask: its version, and where it is false."""
        return WeakIdKeyDictionary()

    @cached_property
    def device(self) -> torch.device:
        """Where masks lie."""
        return torch.device(self._device)

    def on(self, device: torch.device | str) -> Layout:
        """The same layout with its masks on a device."""
        return Layout([(s.name, s.shape, s.kind, s.head) for s in self.slices], device)

    def __iter__(self) -> Iterator[Slice]:
        return iter(self.slices)

    def __getitem__(self, name: str) -> Slice:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Slice]:
        return {s.name: s for s in self.slices}

    # -- masks over D ------------------------------------------------------------------------------

    def select(self, wanted: Callable[[Slice], bool]) -> Tensor:
        """The coordinates of all tensors that satisfy a condition  [D] bool."""
        mask = torch.zeros(self.size, dtype=torch.bool, device=self.device)
        for s in self.slices:
            mask[s.start : s.stop] = wanted(s)
        return mask

    def where(
        self, *, kind: Kind | None = None, head: bool | None = None, name: str | None = None
    ) -> Tensor:
        """The coordinates of all tensors of a kind, of the head or the body, or of one name  [D]
        bool.
        """
        return self.select(
            lambda s: (
                (kind in (None, s.kind)) and (head in (None, s.head)) and (name in (None, s.name))
            )
        )

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
    def head_weight(self) -> Slice:
        """The last linear layer's weight  [classes, F]."""
        return next(s for s in self.slices if s.head and s.kind == "linear")

    @cached_property
    def head_bias(self) -> Slice:
        """The last linear layer's bias  [classes]."""
        return next(s for s in self.slices if s.head and s.kind == "bias")

    @cached_property
    def parameters(self) -> int:
        """Number of learnable scalars P."""
        return sum(s.size for s in self.slices if s.kind != "stat")

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

    def split(self, flat: Tensor) -> Tensors:
        """Copies of the named tensors [K, *shape] of flat vectors [K, D].

        Copies, not views: views share one version counter, which autograd checks, while statistics
        change in place during a step. Convolution weights are laid out channels-last, the order in
        which convolutions read them.
        """
        named = {}
        for s in self.slices:
            part = flat[:, s.start : s.stop]
            if s.kind == "conv":
                nhwc = part.view(-1, *s.shape).permute(0, 1, 3, 4, 2)
                own = nhwc.clone() if nhwc.is_contiguous() else nhwc.contiguous()
                named[s.name] = own.permute(0, 1, 4, 2, 3)
            else:
                named[s.name] = part.reshape(-1, *s.shape).clone(
                    memory_format=torch.contiguous_format
                )
        return named

    def views(self, flat: Tensor, runs: Sequence[slice] | None = None) -> Tensors:
        """The named tensors [K, *shape] of flat vectors [K, D], for reading; or of vectors that
        hold whole tensors only, by their places in a model.
        """
        named, start = {}, 0
        for s in self.slices:
            if runs is None or any(run.start <= s.start < run.stop for run in runs):
                named[s.name] = flat[:, start : start + s.size].view(-1, *s.shape)
                start += s.size
        return named

    def join(self, named: Mapping[str, Tensor]) -> Tensor:
        """The flat vectors [K, D] of named tensors [K, *shape]."""
        return torch.cat(
            [named[s.name].reshape(named[s.name].shape[0], -1) for s in self.slices], dim=1
        )

    def spread(self, named: Mapping[str, Tensor]) -> Tensor:
        """Flat vectors [K, D] that hold the given tensors and zeros elsewhere."""
        some = next(iter(named.values()))
        flat = torch.zeros(some.shape[0], self.size, dtype=some.dtype, device=some.device)
        for name, value in named.items():
            s = self[name]
            flat[:, s.start : s.stop] = value.reshape(value.shape[0], -1)
        return flat

    # -- per-tensor selection ----------------------------------------------------------------------

    def tensors(self, within: Tensor) -> Iterator[slice]:
        """The places of the tensors that lie inside a mask made of whole tensors. The device is
        asked once for a mask that lives on.
        """
        known = self._inside.get(within)
        if known is None or known[0] != within._version:
            starts = sent(torch.tensor([s.start for s in self.slices]), within.device)
            self._inside[within] = known = within._version, within[starts].tolist()
        return (
            slice(s.start, s.stop) for s, held in zip(self.slices, known[1], strict=True) if held
        )

    def outside(self, mask: Tensor) -> tuple[slice, ...] | None:
        """Where a mask is false, in runs; none: there are more of them than tensors. The device is
        asked once for a mask that lives on.
        """
        known = self._outside.get(mask)
        if known is None or known[0] != mask._version:
            lacking = F.pad((~mask).to(torch.int8), (1, 1))
            ends = lacking.diff().nonzero().flatten().tolist()
            pairs = zip(ends[::2], ends[1::2], strict=True)
            few = len(ends) <= 2 * len(self.slices)
            known = mask._version, tuple(slice(*both) for both in pairs) if few else None
            self._outside[mask] = known
        runs: tuple[slice, ...] | None = known[1]
        return runs

    def whole(self, runs: Sequence[slice]) -> bool:
        """Whether runs of coordinates begin and end where tensors do."""
        ends = {0, *(s.stop for s in self.slices)}
        return all(run.start in ends and run.stop in ends for run in runs)


def blocks(rows: int, size: int = 16) -> Iterator[slice]:
    """Rows of everybody's models a few at a time, for work whose intermediate results would not fit
    for all at once.
    """
    return (slice(first, min(first + size, rows)) for first in range(0, rows, size))


def kth_largest(scores: Tensor, count: int) -> Tensor:
    """The count-th largest score of every row; infinite for a count of zero  [K, n] -> [K, 1]."""
    if count == 0:
        return torch.full(
            (scores.shape[0], 1), float("inf"), dtype=scores.dtype, device=scores.device
        )
    if scores.is_cuda:  # the k-th value takes one block of threads per row
        return scores.topk(count, dim=1, sorted=False).values.amin(1, keepdim=True)
    return scores.kthvalue(scores.shape[1] - count + 1, dim=1, keepdim=True).values


def largest(scores: Tensor, counts: Tensor) -> Tensor:
    """As many of the largest scores [K, n] of every row as `counts` [K] says, of equal ones the
    earlier  [K, n] bool.
    """
    return _first_in_order(scores, counts) if scores.is_cuda else _above_a_bar(scores, counts)


def _first_in_order(scores: Tensor, counts: Tensor) -> Tensor:
    """`largest` by sorting, which a GPU does in parallel."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    wanted = torch.arange(scores.shape[1], device=scores.device) < counts[:, None]
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, wanted)


def _above_a_bar(scores: Tensor, counts: Tensor) -> Tensor:
    """`largest` in linear time: find the last score that is in, then the first of those equal to
    it.
    """
    size = scores.shape[1]
    ranks = (size + 1 - counts).clamp(1, size).tolist()
    bars = torch.stack(
        [row.kthvalue(rank).values for row, rank in zip(scores, ranks, strict=True)]
    )[:, None]
    above, equal = scores > bars, scores == bars
    missing = counts[:, None] - counted(above)[:, None]
    return above | (equal & (equal.cumsum(1, dtype=torch.int32) <= missing))


def counted(mask: Tensor) -> Tensor:
    """How many entries of a mask, or of each row, are true; summed at once, a mask is first copied
    as integers  [..., D] -> [...].
    """
    return (
        mask.sum()
        if mask.dim() == 1
        else torch.cat([mask[rows].sum(1) for rows in blocks(len(mask))])
    )
