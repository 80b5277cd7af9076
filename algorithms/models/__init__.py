"""The models, by name: ordinary `nn.Module`s."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from repfl.algorithms.models.cnn4 import CNN4
from repfl.algorithms.models.conv1d import Conv1d
from repfl.algorithms.models.lenet5 import LeNet5
from repfl.algorithms.models.mlp import MLP
from repfl.algorithms.models.resnet import resnet8, resnet10, resnet18, resnet18_gn
from repfl.algorithms.models.tiny import Tiny, TinyBN
from repfl.algorithms.models.vit import ViT4

if TYPE_CHECKING:
    from repfl.algorithms.engine.model import Model

Builder = Callable[[int, int, int], Any]
"""From channels, size and classes to an `nn.Module`: the size is the height and width of images, or
the length of signals and token sequences. The channels of tokens are the size of the vocabulary.
"""
B = TypeVar("B", bound=Builder)

MODELS: dict[str, Builder] = {
    "cnn4": CNN4,
    "conv1d": Conv1d,
    "lenet5": LeNet5,
    "mlp": MLP,
    "resnet8": resnet8,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "resnet18-gn": resnet18_gn,
    "tiny": Tiny,
    "tiny-bn": TinyBN,
    "vit4": ViT4,
}
"""Ours, and those that plug-ins register."""
OURS = tuple(MODELS)
FILES: dict[str, tuple[Path, ...]] = {}
"""Files that models read, such as weights: their hashes are part of the ids of cells."""


def register(name: str, *, files: tuple[str, ...] = ()) -> Callable[[B], B]:
    """Register a model: a function of (channels, size, classes) that returns an `nn.Module`, or
    a module class whose constructor takes these. It takes images [B, C, H, W] unless it has an
    attribute `inputs`: "signals" [B, C, T] or "tokens" [B, T]. `files` are those that it reads,
    relative to its own file.
    """
    from repfl.algorithms.engine.model import ModelError

    def add(builder: B) -> B:
        if name in MODELS:
            raise ModelError(f"model {name!r} is registered twice")
        MODELS[name] = builder
        FILES.pop(name, None)
        if files:
            folder = Path(str(sys.modules[builder.__module__].__file__)).parent
            FILES[name] = tuple(folder / file for file in files)
        return builder

    return add


Inputs = Literal["images", "signals", "tokens"]
SHAPES: dict[Inputs, Callable[[int, int], tuple[int, ...]]] = {
    "images": lambda channels, size: (channels, size, size),
    "signals": lambda channels, size: (channels, size),
    "tokens": lambda channels, size: (size,),
}


def inputs_of(name: str) -> Inputs:
    """Return what a model takes: images, signals or tokens."""
    kind = getattr(MODELS[name], "inputs", "images")
    if kind not in SHAPES:
        from repfl.algorithms.engine.model import ModelError

        valid = ", ".join(SHAPES)
        raise ModelError(f"model {name!r} has inputs {kind!r}; valid: {valid}")
    return cast("Inputs", kind)


def build(name: str, *, channels: int, size: int, classes: int) -> Model:
    """Build a model for square images, or for what it declares as its `inputs`; features are images
    of one pixel, with as many channels.
    """
    from repfl.algorithms.engine.model import Model, ModelError

    kind = inputs_of(name)
    shape = SHAPES[kind](channels, size)
    try:
        return Model(
            name, lambda: MODELS[name](channels, size, classes), shape, classes, kind == "tokens"
        )
    except ModelError:
        raise
    except Exception as error:  # a module of others may fail in any way
        raise ModelError(
            f"model {name!r} does not take inputs {list(shape)}: {type(error).__name__}:"
            f" {' '.join(str(error).split())}"
        ) from error
