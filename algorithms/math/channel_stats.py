"""Channel statistics of feature maps: means and standard deviations over a client's samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation
    from repfl.algorithms.engine.batches import Batch
    from repfl.algorithms.engine.client import Client

Map = tuple[str, str]
"""The name of a batch-norm layer, and "input" or "output"."""


def channel_statistics(
    fed: Federation, models: Tensor, maps: Sequence[Map]
) -> tuple[Tensor, list[int]]:
    """Return the channel means, then the standard deviations, of feature maps over each active
    client's training data  [K, 2 C], and the number of channels of every map.
    """
    widths = [fed.params[f"{name}.running_mean"].size for name, _ in maps]
    with record_maps(fed.model.body, [name for name, _ in maps]) as recorded:

        @torch.no_grad()
        def step(client: Client, batch: Batch) -> None:
            client.model(training=False).features(batch.x)
            merge_batch(client.extras, [recorded[key].to(fed.dtype) for key in maps])
            recorded.clear()

        sizes = {"count": 1, "mean": sum(widths), "moment": sum(widths)}
        zeros = {name: models.new_zeros(fed.K, size) for name, size in sizes.items()}
        sums = fed.for_each_batch(step, {"params": models}, extras=zeros).extras
    variance = sums["moment"] / sums["count"].clamp(min=1)
    return torch.cat([sums["mean"], variance.sqrt()], dim=1), widths


@contextmanager
def record_maps(body: nn.Module, layers: list[str]) -> Iterator[dict[Map, Tensor]]:
    """Context manager: record the inputs and outputs of layers."""
    recorded: dict[Map, Tensor] = {}

    def hook(name: str, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        recorded[name, "input"], recorded[name, "output"] = inputs[0], output

    handles = [
        body.get_submodule(name).register_forward_hook(
            lambda _, inputs, output, name=name: hook(name, inputs, output)
        )
        for name in layers
    ]
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()


def merge_batch(sums: dict[str, Tensor], maps: list[Tensor]) -> None:
    """Add feature maps [B, C, ...] of one batch to the running count, means and sums of squared
    deviations (Chan et al.'s update).
    """
    size = len(maps[0])
    maps = [x if x.dim() > 2 else x[..., None] for x in maps]
    places = [tuple(range(2, x.dim())) for x in maps]
    means = [x.mean(dim=dims).sum(0) / size for x, dims in zip(maps, places, strict=True)]
    shapes = [(-1, *[1] * len(dims)) for dims in places]
    centred = [x - m.view(shape) for x, m, shape in zip(maps, means, shapes, strict=True)]
    squares = [x.square().mean(dim=dims).sum(0) for x, dims in zip(centred, places, strict=True)]
    moment = torch.cat(squares)
    mean = torch.cat(means)
    total, gap = sums["count"] + size, mean - sums["mean"]
    sums["moment"] = sums["moment"] + moment + gap.square() * sums["count"] * size / total
    sums["mean"] = sums["mean"] + gap * size / total
    sums["count"] = total
