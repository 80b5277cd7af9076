"""Difficult toy clients, and a short protocol for them."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
import torch

from repfl.algorithms.engine.client_data import ClientData
from repfl.datasets.core import registry
from repfl.datasets.core.augment import AUGMENTATIONS
from repfl.datasets.core.recipe import Evaluation, Newcomers, Partition, Recipe, Training

RAGGED, SHORT = (25, 7, 0, 40, 1, 16), (9, 0, 8, 1)
"""Samples per client: short last batches, nobody at all, a single sample; the last client has one
class only. `SHORT` is for what takes its time step by step.
"""


def toy_data(
    sizes: tuple[int, ...] = RAGGED, *, seed: int = 0, classes: int = 4, test: int = 9
) -> ClientData:
    """Return learnable random images: every class has a mean image; client i has two classes, and
    the last client only one.
    """
    rng = np.random.default_rng(seed)
    total = sum(sizes) + test * len(sizes)
    owner = np.concatenate(
        [np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(sizes)), test)]
    )
    labels = (owner + rng.integers(0, 2, total)) % classes
    labels[owner == len(sizes) - 1] = 0
    prototypes = rng.integers(0, 200, (classes, 8, 8, 1))
    images = (prototypes[labels] + rng.integers(0, 56, (total, 8, 8, 1))).astype(np.uint8)
    stops = np.cumsum(sizes)
    train = [torch.arange(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
    tests = [
        torch.arange(stops[-1] + i * test, stops[-1] + (i + 1) * test) for i in range(len(sizes))
    ]
    empty = [torch.arange(0) for _ in sizes]
    scale, public = torch.full((1,), 1 / 255), rng.integers(0, 256, (12, 8, 8, 1))
    return ClientData(
        torch.from_numpy(images),
        torch.from_numpy(labels),
        train,
        tests,
        empty,
        scale,
        -0.5 * torch.ones(1),
        classes,
        public=torch.from_numpy(public.astype(np.uint8)),
    )


def like(data: ClientData, recipe: Recipe) -> ClientData:
    """Return the toy data in the form of a recipe's data set, with its input and augmentation."""
    described = registry.get(recipe.dataset)
    size, dtype = math.prod(described.shape), registry.SAMPLE_DTYPES[described.kind]
    spread = torch.arange(size) * 64 // size

    def formed(images: torch.Tensor) -> torch.Tensor:
        values = images.flatten(1)[:, spread].numpy().astype(int) % (described.vocabulary or 256)
        return torch.from_numpy(values.reshape(-1, *described.shape).astype(dtype))

    assert data.public is not None
    channels = described.shape[2]
    classes = recipe.classes or len(described.classes)
    return replace(
        data,
        images=formed(data.images),
        labels=data.labels % classes,
        public=formed(data.public),
        scale=data.scale.expand(channels),
        shift=data.shift.expand(channels),
        classes=classes,
        shape=recipe.input,
        augment=AUGMENTATIONS[recipe.augment],
        kind=described.kind,
    )


def short(training: Training) -> dict[str, Any]:
    """Return the fields of a recipe's training, shortened for toy clients."""
    values = {field.name: getattr(training, field.name) for field in fields(training)}
    limits = {"rounds": 3, "batch": 8, "epochs": 2, "steps": 5}
    return values | {n: min(values[n], limits[n]) for n in limits if values[n] is not None}


def toy_recipe(
    *,
    clients: int = len(RAGGED),
    participation: float = 1.0,
    sampling: Literal["keyed", "flbench"] = "keyed",
    evaluation: dict[str, Any] | None = None,
    **training: Any,
) -> Recipe:
    """Return a short protocol."""
    plain = {"rounds": 3, "epochs": 2, "batch": 8, "lr": 0.05}
    return Recipe(
        dataset="toy",
        model="tiny",
        clients=clients,
        partition=Partition(rule="toy"),
        training=Training(**(plain | training)),
        evaluation=Evaluation(**(evaluation or {})),
        participation=participation,
        sampling=sampling,
        newcomers=Newcomers(share=0.5, samples=max(RAGGED), epochs=2),
    )


def with_other_tests(sizes: tuple[int, ...]) -> ClientData:
    """Return the toy data with different test images and labels."""
    data = toy_data(sizes)
    images, labels, tests = data.images.clone(), data.labels.clone(), torch.cat(list(data.test))
    images[tests], labels[tests] = 255 - images[tests], (labels[tests] + 1) % data.classes
    return replace(data, images=images, labels=labels)


def with_validation(sizes: tuple[int, ...]) -> ClientData:
    """Return the toy data with every client's last test images as validation images."""
    data = toy_data(sizes)
    return replace(
        data, test=[index[:-3] for index in data.test], val=[index[-3:] for index in data.test]
    )
