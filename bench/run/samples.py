"""How much a cell trains and scores: the operations of its model, samples, batches, scorings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any

from repfl.bench.grid.cell import known_entry
from repfl.bench.grid.recipes import sizes

UNKNOWN = 10_000
"""Training samples assumed of a data set of which nothing is published, or here."""
Shape = tuple[str, int, int, int]
"""Model, channels and height of its input, classes."""


def shape_of(recipe: Mapping[str, Any]) -> Shape:
    """Return what a recipe's model is built from."""
    from repfl.datasets.core import registry

    described = registry.get(recipe["dataset"])
    height, _, channels = described.shape
    if recipe["input"]:
        channels, height = recipe["input"][0], recipe["input"][1]
    return recipe["model"], channels, height, recipe["classes"] or len(described.classes)


@lru_cache(maxsize=256)
def multiply_adds(model: str, channels: int, size: int, classes: int) -> tuple[float, float, int]:
    """Return multiply-adds per sample of scoring and of training, and the model's entries."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from repfl.algorithms import models

    built = models.build(model, channels=channels, size=size, classes=classes)
    net = built.at("default", torch.device("meta"), torch.float32)
    tensors = {s.name: torch.empty(s.shape, device="meta") for s in net.params}
    for s in net.params.trained:
        tensors[s.name].requires_grad_()
    x = torch.empty(2, channels, size, size, device="meta")
    with FlopCounterMode(display=False) as forward:
        logits = net.bind(tensors)(x)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    scored = forward.get_total_flops() / 4
    return scored, scored + backward.get_total_flops() / 4, net.params.size


def trained_on(recipe: Mapping[str, Any]) -> float:
    """Return the training samples of a client: as the partition says, or an equal share."""
    return _held(recipe) * (1 - recipe["partition"].get("val_share", 0.0))


def _held(recipe: Mapping[str, Any]) -> float:
    """Return the same before some are set apart for validation."""
    if (fixed := _fixed(recipe, "train")) is not None:
        return fixed
    splits, options = _sizes(recipe), recipe["partition"]["options"]
    train, test = options.get("train_share"), options.get("test_share")
    if isinstance(train, int | float):
        share = float(train)
    elif isinstance(test, int | float):
        share = 1.0 - test
    else:
        return splits.get("train", sum(splits.values())) / float(recipe["clients"])
    return sum(splits.values()) * share / float(recipe["clients"])


def scored_on(recipe: Mapping[str, Any]) -> float:
    """Return the samples that a client is scored on, in a round that is scored."""
    validation = _held(recipe) * recipe["partition"].get("val_share", 0.0)
    if (fixed := _fixed(recipe, "test")) is not None:
        return fixed + validation
    splits, share = _sizes(recipe), recipe["partition"]["options"].get("test_share")
    if isinstance(share, int | float):
        return sum(splits.values()) * share / float(recipe["clients"]) + validation
    return splits.get("test", sum(splits.values()) / 4) / float(recipe["clients"]) + validation


def _fixed(recipe: Mapping[str, Any], split: str) -> float | None:
    """Return the samples of a client if the partition sets their number."""
    rule, options = recipe["partition"]["rule"], recipe["partition"]["options"]
    if not isinstance(options.get(split), int | float):
        return None
    return float(options[split] * (options["classes"] if rule == "class-shards" else 1))


def _sizes(recipe: Mapping[str, Any]) -> dict[str, int]:
    from repfl.datasets.core import registry

    return sizes(registry.get(recipe["dataset"])) or {"train": UNKNOWN}


def batches(recipe: Mapping[str, Any]) -> float:
    """Return the mini-batches of an epoch; if clients hold different numbers of samples, the last
    one of each is taken to be half full.
    """
    samples, batch = trained_on(recipe), recipe["training"]["batch"]
    even = _fixed(recipe, "train") is not None
    return float(max(1, ceil(samples / batch) if even else samples / batch + 0.5))


def scorings(recipe: Mapping[str, Any], tunes: bool) -> tuple[int, int]:
    """Return how often the participants are scored, and how often all clients; `tunes`: clients
    train before they are scored.
    """
    evaluation, rounds = recipe["evaluation"], int(recipe["training"]["rounds"])
    first = evaluation["every"] if evaluation["start_every"] is None else evaluation["start_every"]
    last = evaluation["finetuned_every"] if tunes else evaluation["every"]
    points, named = evaluation["points"], evaluation["rounds"]
    cohorts = ("start" in points and not tunes) * _due(first, rounds, named)
    cohorts += ("pre_agg" in points) * _due(evaluation["every"], rounds, named)
    return cohorts, ("post_agg" in points) * _due(last, rounds, named)


def _due(every: int, rounds: int, named: Any) -> int:
    """Return how many rounds are scored."""
    regular = set(range(every, rounds + 1, every)) if every else set()
    return len(regular | {rounds} | {each for each in named if each <= rounds})


def tuning_epochs(method: str, hp: Mapping[str, Any], recipe: Mapping[str, Any]) -> float | None:
    """Return the epochs that clients train before they are scored; None if they do not."""
    from repfl.bench.grid.cell import hyperparameters

    known = known_entry(method)
    if known is None or not known.cls(hyperparameters(method, dict(hp))).personalizes:
        return None
    asked = hp.get("final_epochs") or hp.get("epochs")
    return float(recipe["training"]["epochs"] if asked is None else asked)
