"""How large a run's state is, by group of tensors: it tells where two runs first part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from repfl.algorithms.core.run import Run
    from repfl.algorithms.engine.params import Params, Slice


def norms(run: Run) -> dict[str, float]:
    """Root mean squares over what is finite: of models by group, of any other state as a whole."""
    found: dict[str, float] = {}
    for name, value in sorted(run.state.items()):
        if value.numel() and value.shape[-1:] == (run.fed.params.size,):
            found |= {
                f"{name}/{group}": size for group, size in _of_models(value, run.fed.params).items()
            }
        elif value.numel():
            found[name] = sqrt(float(_squares(value).sum()) / value.numel())
    return found


def _squares(value: Tensor) -> Tensor:
    import torch

    wide = value.double()
    return torch.where(wide.isfinite(), wide, 0.0).square()


def _of_models(value: Tensor, params: Params) -> dict[str, float]:
    """Models [..., D] by group, in the order in which groups first appear in a model."""
    columns = _squares(value.reshape(-1, params.size)).sum(0)  # [D]
    totals: dict[str, float] = {}
    counts: dict[str, int] = {}
    for part in params:
        group = group_of(part)
        totals[group] = totals.get(group, 0.0) + float(columns[part.start : part.stop].sum())
        counts[group] = counts.get(group, 0) + part.size
    rows = value.numel() // params.size
    return {group: sqrt(total / (rows * counts[group])) for group, total in totals.items()}


def group_of(part: Slice) -> str:
    """The group of one named tensor: its kind, the head's apart."""
    return f"head.{part.kind}" if part.head else part.kind


def by_group(rounds: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    """One list per group: before the first round, then after each; none where it was absent."""
    names = dict.fromkeys(name for sizes in rounds for name in sizes)
    return {name: [sizes.get(name) for sizes in rounds] for name in names}
