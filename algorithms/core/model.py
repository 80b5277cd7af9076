"""What a model is: a layout, initial values, and a forward pass over a client axis."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core import ops
from repfl.algorithms.core.layout import Kind, Layout, Params, Single
from repfl.algorithms.core.ops import Mode
from repfl.algorithms.core.rng import Streams

Init = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
Spec = tuple[str, tuple[int, ...], Kind, bool, Init]
"""Name, shape, kind, belongs to the head, and how it starts."""


class ModelError(ValueError):
    """A model is declared wrongly, or does not take what it is given: one line that says why."""


class Model:
    """A network with an explicit client axis; `features` ends where the head, its last linear
    layer, begins. Its body counts dimensions from the back: one client may come without the axis,
    with x [B, C, H, W] and plain parameters.
    """

    stacked = True
    """Several clients go through its layers at once."""

    def __init__(
        self,
        name: str,
        specs: tuple[Spec, ...],
        body: Callable[[Params, Tensor, Mode], Tensor],
        head_name: str,
    ) -> None:
        self.name = name
        self.specs = specs
        self.layout = Layout(spec[:4] for spec in specs)
        self._body = body
        self._head = head_name
        self._half = False

    def at(self, precision: str) -> Model:
        """The same model with forward passes in bfloat16, if that is asked for."""
        other = copy(self)
        other._half = precision == "bf16"
        return other

    def initial(self, streams: Streams, *address: int) -> Tensor:
        """Initial values at an address of the random streams  [D] float32."""
        rng = streams.at("model", *address)
        return torch.from_numpy(
            np.concatenate(
                [init(rng, shape).astype(np.float32).ravel() for _, shape, _, _, init in self.specs]
            )
        )

    def features(self, params: Params, x: Tensor, mode: Mode) -> Tensor:
        """x [K, B, C, H, W] -> what the head sees  [K, B, F]."""
        if self._alone(x, mode):
            return self._precisely(self._body, _bare(params), x.squeeze(0), mode).unsqueeze(0)
        return self._precisely(self._body, params, x, mode)

    def head(self, params: Params, features: Tensor) -> Tensor:
        """features [K, B, F] -> logits [K, B, classes]."""
        return self._precisely(self._linear, params, features)

    def logits(self, params: Params, x: Tensor, mode: Mode) -> Tensor:
        """x [K, B, C, H, W] -> [K, B, classes]."""
        if not self._alone(x, mode):
            return self.head(params, self.features(params, x, mode))
        own = _bare(params)
        return self.head(own, self._precisely(self._body, own, x.squeeze(0), mode)).unsqueeze(0)

    def _alone(self, x: Tensor, mode: Mode) -> bool:
        """Whether layers may go without the client axis: one client, nothing padded or tapped."""
        return self.stacked and len(x) == 1 and mode.valid is None and mode.tap is None

    def _linear(self, params: Params, features: Tensor) -> Tensor:
        return ops.linear(features, params[f"{self._head}.weight"], params[f"{self._head}.bias"])

    def _precisely(
        self, layers: Callable[..., Tensor], params: Params, x: Tensor, *more: Any
    ) -> Tensor:
        """What layers compute in the model's precision, in the input's."""
        if not self._half:
            return layers(params, x, *more)
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            return layers(params, x, *more).to(x.dtype)


def _bare(params: Params) -> Params:
    """One client's tensors without the client axis."""
    if isinstance(params, Single):
        return params.bare
    return {name: value.squeeze(0) for name, value in params.items()}


# -- building blocks of specs ----------------------------------------------------------------------


def _uniform(bound: float) -> Init:
    return lambda rng, shape: rng.uniform(-bound, bound, shape)


def _constant(value: float) -> Init:
    return lambda rng, shape: np.full(shape, value)


def _normal(std: float) -> Init:
    return lambda rng, shape: std * rng.standard_normal(shape)


def conv(
    name: str, inp: int, out: int, size: int, *, bias: bool = True, he: bool = False
) -> list[Spec]:
    """A convolution; PyTorch's default initialisation, or He's normal one over the fan-out."""
    bound = (inp * size * size) ** -0.5
    init = _normal((2.0 / (out * size * size)) ** 0.5) if he else _uniform(bound)
    weight: Spec = (f"{name}.weight", (out, inp, size, size), "conv", False, init)
    return [weight, (f"{name}.bias", (out,), "bias", False, _uniform(bound))] if bias else [weight]


def dense(name: str, inp: int, out: int, *, head: bool = False) -> list[Spec]:
    """A linear layer with PyTorch's default initialisation."""
    init = _uniform(inp**-0.5)
    return [
        (f"{name}.weight", (out, inp), "linear", head, init),
        (f"{name}.bias", (out,), "bias", head, init),
    ]


def affine(name: str, channels: int) -> list[Spec]:
    """A normalisation layer's weight and bias."""
    return [
        (f"{name}.weight", (channels,), "norm", False, _constant(1.0)),
        (f"{name}.bias", (channels,), "norm", False, _constant(0.0)),
    ]


def batch_norm(name: str, channels: int) -> list[Spec]:
    """A batch-norm layer: affine parameters and running statistics."""
    mean: Spec = (f"{name}.mean", (channels,), "stat", False, _constant(0.0))
    return [
        *affine(name, channels),
        mean,
        (f"{name}.var", (channels,), "stat", False, _constant(1.0)),
    ]
