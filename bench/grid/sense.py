"""Whether a recipe makes sense: its names all exist, and what each field alone allows goes together
with the others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from repfl.bench.errors import UserError, nearest, unknown
from repfl.datasets.core.recipe import Recipe

if TYPE_CHECKING:
    from repfl.datasets.core.registry import Dataset

LEAST = {"cnn4": 16, "lenet5": 16, "tiny": 4, "tiny-bn": 2}
"""Sides of the smallest images that a model takes, where it does not take all."""


def check(recipe: Recipe, place: str) -> None:
    """Refuse what could only fail later, when cells run."""
    _check_names(recipe, place)
    _check_data(recipe, place)
    _check_model(recipe, place)
    _check_evaluation(recipe, place)


def _check_names(recipe: Recipe, place: str) -> None:
    from repfl.algorithms.models import MODELS
    from repfl.datasets.core import augment, partition, registry

    for what, name, known in (
        ("dataset", recipe.dataset, registry.names()),
        ("model", recipe.model, MODELS),
        ("partition.rule", recipe.partition.rule, partition.partitioners()),
        ("augment", recipe.augment, augment.names()),
    ):
        if name not in known:
            raise unknown(what, name, known, place)


def sizes(dataset: Dataset) -> dict[str, int]:
    """Split sizes as described, else as prepared here: only that takes a look at files."""
    if dataset.splits:
        return dataset.splits
    from repfl.datasets.core import cache

    return cache.sizes(dataset)


def _check_data(recipe: Recipe, place: str) -> None:
    """What clients hold can be had from the dataset."""
    from repfl.datasets.core import registry

    description = registry.get(recipe.dataset)
    height, width, channels = description.shape
    samples, least = sum(sizes(description).values()), max(height, width)
    depth, *sides = recipe.input or (channels, height, width)
    if recipe.norm not in description.norms:
        raise UserError(
            f"{place}: {recipe.dataset} has no norm {recipe.norm!r};"
            f" {nearest(recipe.norm, description.norms)}"
        )
    if recipe.classes is not None and recipe.classes < len(description.classes):
        raise UserError(
            f"{place}: classes = {recipe.classes} is fewer than {recipe.dataset} has; valid: >="
            f" {len(description.classes)}"
        )
    if samples and recipe.clients > samples:
        raise UserError(
            f"{place}: clients = {recipe.clients:,} is more than {recipe.dataset} has samples;"
            f" valid: 1 to {samples:,}"
        )
    if recipe.newcomers and recipe.residents < 1:
        raise UserError(
            f"{place}: newcomers.share = {recipe.newcomers.share:g} leaves nobody to take part, of"
            f" clients = {recipe.clients}; valid: a smaller share, or more clients"
        )
    if depth < channels or min(sides) < least or sides[0] != sides[1]:
        raise UserError(
            f"{place}: input = {[depth, *sides]} is not valid; images of {recipe.dataset} grow to"
            f" squares, valid: channels >= {channels}, height = width >= {least}"
        )


def _check_model(recipe: Recipe, place: str) -> None:
    """The model takes what the data are."""
    from repfl.algorithms import models
    from repfl.datasets.core import registry

    description = registry.get(recipe.dataset)
    if description.features and recipe.model in models.OURS and recipe.model != "mlp":
        raise UserError(
            f"{place}: model {recipe.model!r} takes images, and {recipe.dataset} has features;"
            " valid: 'mlp', or a model of your own"
        )
    if description.features and recipe.augment != "none":
        raise UserError(f"{place}: augment = {recipe.augment!r} is for images; valid: 'none'")
    if recipe.model not in models.OURS:
        height, _, channels = description.shape
        shape = recipe.input[:2] if recipe.input else (channels, height)
        _build(recipe.model, *shape, recipe.classes or len(description.classes), place)
    elif not description.features:
        side, least = (recipe.input or description.shape)[1], LEAST.get(recipe.model, 1)
        if side < least:
            raise UserError(
                f"{place}: model {recipe.model!r} takes images of at least {least} x {least}, and"
                f" those of {recipe.dataset} have {side} x {side} here; valid: input = [channels,"
                f" {least}, {least}], or another model"
            )


@lru_cache(maxsize=64)
def _build(model: str, channels: int, size: int, classes: int, place: str) -> None:
    """Build a model of the user's once, to see whether it can be."""
    from repfl.algorithms import models
    from repfl.algorithms.engine.model import ModelError

    try:
        models.build(model, channels=channels, size=size, classes=classes)
    except ModelError as error:
        raise UserError(f"{place}: {error}") from None


def _check_evaluation(recipe: Recipe, place: str) -> None:
    """What is to be reported is scored."""
    from repfl.datasets.core import partition
    from repfl.datasets.core.errors import DataError

    wanted = recipe.evaluation
    if wanted.point not in wanted.points:
        raise unknown("evaluation.point", wanted.point, wanted.points, place)
    if wanted.rule == "max" and any(
        not 1 <= round_ <= recipe.training.rounds for round_ in wanted.rounds
    ):
        raise UserError(
            f"{place}: evaluation.rounds = {wanted.rounds} is not valid; valid: 1 to"
            f" {recipe.training.rounds}"
        )
    try:
        partition.check_val_share(recipe.partition)
        blind = wanted.rule == "best-val" and not partition.has_validation(recipe.partition)
    except DataError as error:
        raise UserError(f"{place}: {error}") from None
    if blind:
        rule = recipe.partition.rule
        raise UserError(
            f"{place}: evaluation.rule = 'best-val' needs validation data, and partition {rule!r}"
            " sets none apart; valid: 'last' or 'max', or a partition.val_share such as 0.1"
        )
