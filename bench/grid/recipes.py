"""Recipes: validation of the tables in grid files, and of fields that depend on each other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from repfl.bench.errors import UserError, nearest, one_line, refusal, unknown
from repfl.bench.grid.dotted_names import leaves
from repfl.bench.grid.once import once
from repfl.datasets.core.errors import DataError, registered
from repfl.datasets.core.recipe import Recipe, Training

if TYPE_CHECKING:
    from repfl.datasets.core.registry import Dataset

SMALLEST_IMAGE = {"cnn4": 16, "lenet5": 16, "tiny": 4, "tiny-bn": 2, "vit4": 2}
"""Height and width of the smallest images that a model takes, if it does not take all."""


def recipe_from(values: Mapping[str, Any], location: str) -> Recipe:
    """Return a validated recipe; `location` tells in messages where the values come from."""
    recipe: Recipe = _with_registered_names(validated(Recipe, values, location))
    if problem := next(_problems(recipe), ""):
        raise UserError(f"{location}: {problem}")
    return resolved(recipe)


def _with_registered_names(recipe: Recipe) -> Recipe:
    """Return a recipe with names as they are registered: `fashion-mnist` is `fashion_mnist`."""
    from repfl.algorithms.models import MODELS
    from repfl.datasets.core import partition, registry

    dataset = registered(recipe.dataset, registry.names())
    model = registered(recipe.model, MODELS)
    rule = registered(recipe.partition.rule, partition.partitioners())
    if (dataset, model, rule) == (recipe.dataset, recipe.model, recipe.partition.rule):
        return recipe
    split = replace(recipe.partition, rule=rule)
    return replace(recipe, dataset=dataset, model=model, partition=split)


def resolved(recipe: Recipe) -> Recipe:
    """Return a recipe whose partition states all options of its rule."""
    from repfl.datasets.core import partition

    try:
        options = partition.resolve(recipe.partition)
    except DataError as error:
        raise UserError(f"partition: {error}") from None
    if options == recipe.partition.options:
        return recipe
    return replace(recipe, partition=replace(recipe.partition, options=options))


def validated(cls: Any, values: Mapping[str, Any], location: str) -> Any:
    """Return a strict dataclass from plain values.

    They are validated as JSON, in which lists stand for tuples and whole numbers for floats.
    """
    for field, value in leaves(values):
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{location}: {field} = {value} is not valid; valid: a finite number")
    try:
        return adapter(cls).validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise refusal(error, cls, location) from None
    except ValueError as error:  # a number of thousands of digits
        raise UserError(f"{location}: {one_line(error)}") from None


@lru_cache
def adapter(cls: Any) -> TypeAdapter[Any]:
    """Return a class's validator, which takes milliseconds to make."""
    return TypeAdapter(cls)


# -- whether the fields go together ----------------------------------------------------------------


def _problems(recipe: Recipe) -> Iterator[str]:
    """Yield problems that would otherwise appear only when cells run."""
    yield from _unknown_names(recipe)
    yield from _data_problems(recipe)
    yield from _model_problems(recipe)
    yield from _training_problems(recipe.training)
    yield from _evaluation_problems(recipe)


def _unknown_names(recipe: Recipe) -> Iterator[str]:
    from repfl.algorithms.models import MODELS
    from repfl.datasets.core import augment, partition, registry

    for field, name, valid in (
        ("dataset", recipe.dataset, registry.names()),
        ("model", recipe.model, MODELS),
        ("partition.rule", recipe.partition.rule, partition.partitioners()),
        ("augment", recipe.augment, augment.AUGMENTATIONS),
    ):
        if name not in valid:
            yield str(unknown(field, name, valid))


def _data_problems(recipe: Recipe) -> Iterator[str]:
    from repfl.datasets.core import cache, registry

    dataset = registry.get(recipe.dataset)
    height, width, channels = dataset.shape
    samples, least = sum(cache.sizes(dataset).values()), max(height, width)
    depth, *sides = recipe.input or (channels, height, width)
    if recipe.norm not in dataset.norms:
        yield (
            f"{recipe.dataset} has no norm {recipe.norm!r}; {nearest(recipe.norm, dataset.norms)}"
        )
    if recipe.classes is not None and recipe.classes < len(dataset.classes):
        yield (
            f"classes = {recipe.classes} is fewer than {recipe.dataset} has; valid: >="
            f" {len(dataset.classes)}"
        )
    if samples and recipe.clients > samples:
        yield (
            f"clients = {recipe.clients:,} is more than {recipe.dataset} has samples; valid: 1 to"
            f" {samples:,}"
        )
    if recipe.newcomers and recipe.residents < 1:
        yield (
            f"newcomers.share = {recipe.newcomers.share:g} leaves nobody to take part, of clients ="
            f" {recipe.clients}; valid: a smaller share, or more clients"
        )
    if dataset.kind in ("signals", "tokens"):
        if recipe.input:
            yield f"input is for images, and {recipe.dataset} has {dataset.kind}; leave it out"
    elif depth < channels or min(sides) < least or sides[0] != sides[1]:
        yield (
            f"input = {[depth, *sides]} is not valid; images of {recipe.dataset} grow to squares,"
            f" valid: channels >= {channels}, height = width >= {least}"
        )


Shape = tuple[str, int, int, int]
"""Model, channels and height of its input, classes."""


def shape_of(recipe: Recipe) -> Shape:
    """Return the arguments that a recipe's model is built with."""
    from repfl.datasets.core import registry

    described = registry.get(recipe.dataset)
    channels, height = described.model_input
    if recipe.input:
        channels, height, _ = recipe.input
    return recipe.model, channels, height, recipe.classes or len(described.classes)


def _model_problems(recipe: Recipe) -> Iterator[str]:
    from repfl.algorithms.models import OURS
    from repfl.datasets.core import registry

    dataset, model = registry.get(recipe.dataset), recipe.model
    if recipe.augment != "none" and dataset.kind != "images":
        yield f"augment = {recipe.augment!r} is for images; valid: 'none'"
    if problem := _input_problem(dataset, model):
        yield problem
        return
    if model not in OURS:
        shape = recipe.input[:2] if recipe.input else dataset.model_input
        if problem := _build_problem(model, *shape, recipe.classes or len(dataset.classes)):
            yield problem
    elif dataset.kind == "images":
        side, least = (recipe.input or dataset.shape)[1], SMALLEST_IMAGE.get(model, 1)
        if side < least:
            yield (
                f"model {model!r} takes images of at least {least} x {least}, and those of"
                f" {recipe.dataset} have {side} x {side} here; valid: input = [channels, {least},"
                f" {least}], or another model"
            )


def _input_problem(dataset: Dataset, model: str) -> str:
    """Return why a model does not take a dataset's samples; empty if it may."""
    from repfl.algorithms.models import MODELS, OURS, inputs_of

    takes, kind = inputs_of(model), dataset.kind
    if kind == "features" and model in OURS:
        fits, valid = model == "mlp", "'mlp'"
    else:
        fits = takes == ("images" if kind == "features" else kind)
        valid = ", ".join(repr(name) for name in MODELS if inputs_of(name) == kind)
    if fits:
        return ""
    own = f"a model of your own with `inputs = {kind!r}`" if kind in ("signals", "tokens") else ""
    valid = ", or ".join(filter(None, (valid, own or "a model of your own")))
    return f"model {model!r} takes {takes}, and {dataset.name} has {kind}; valid: {valid}"


@lru_cache(maxsize=64)
def _build_problem(model: str, channels: int, size: int, classes: int) -> str:
    """Return why a user's model cannot be built; empty if it can."""
    from repfl.algorithms import models
    from repfl.algorithms.engine.model import ModelError

    try:
        models.build(model, channels=channels, size=size, classes=classes)
    except ModelError as error:
        return str(error)
    return ""


def _training_problems(training: Training) -> Iterator[str]:
    if training.optimiser is None and training.scheduler is None:
        return
    from repfl.algorithms.engine import optimiser as torch_optim

    for field, chosen, classes in (
        ("optimiser", training.optimiser, torch_optim.OPTIMISERS),
        ("scheduler", training.scheduler, torch_optim.SCHEDULERS),
    ):
        if chosen is None:
            continue
        if chosen.name not in classes:
            yield str(unknown(f"training.{field}.name", chosen.name, classes))
            return
        valid = torch_optim.options_of(classes[chosen.name])
        for option in chosen.options:
            if option in torch_optim.FIELDS:
                yield f"training.{field}.options.{option}: set training.{option} instead"
            elif option not in valid:
                yield f"{chosen.name} has no option {option!r}; {nearest(option, valid)}"
    if training.scheduler and training.lr_decay != 1:
        yield "training.lr_decay is a schedule as well as training.scheduler; leave one of them out"
    if problem := _optimiser_problem(adapter(Training).dump_json(training)):
        yield problem


@lru_cache(maxsize=64)
def _optimiser_problem(training: bytes) -> str:
    """Return why PyTorch refuses an optimiser or a schedule; empty if it takes them."""
    from repfl.algorithms.engine.optimiser import try_out

    values: Training = adapter(Training).validate_json(training)
    names = [chosen.name for chosen in (values.optimiser, values.scheduler) if chosen]
    try:
        try_out(values)
    except (ArithmeticError, AssertionError, TypeError, ValueError, RuntimeError) as error:
        return f"training: {' with '.join(names)}: {type(error).__name__}: {one_line(error)}"
    return ""


def _evaluation_problems(recipe: Recipe) -> Iterator[str]:
    from repfl.algorithms.engine.metrics import METRICS
    from repfl.datasets.core import partition

    evaluation, rounds = recipe.evaluation, recipe.training.rounds
    if evaluation.point not in evaluation.points:
        yield str(unknown("evaluation.point", evaluation.point, evaluation.points))
    for name in evaluation.metrics:
        if name not in METRICS:
            yield str(unknown("evaluation.metrics", name, METRICS))
    if evaluation.rule == "max" and any(not 1 <= each <= rounds for each in evaluation.rounds):
        yield f"evaluation.rounds = {evaluation.rounds} is not valid; valid: 1 to {rounds}"
    try:
        partition.check_val_share(recipe.partition)
        has_validation = partition.has_validation(recipe.partition)
    except DataError as error:
        yield str(error)
        return
    if evaluation.rule == "best-val" and not has_validation:
        yield (
            "evaluation.rule = 'best-val' needs validation data, and partition"
            f" {recipe.partition.rule!r} sets none apart; valid: 'last' or 'max', or a"
            " partition.val_share such as 0.1"
        )


def check_partition(recipe: Recipe) -> None:
    """Refuse a partition that is impossible for the data set's sizes.

    A grid file may contain such recipes at scales at which no cell uses them.
    """
    from repfl.datasets.core import cache, partition, registry

    dataset = registry.get(recipe.dataset)
    if splits := cache.sizes(dataset):
        facts = partition.Facts(splits, len(dataset.classes), dataset.groups)
        try:
            partition.check_request(recipe.partition, facts, recipe.clients)
        except DataError as error:
            raise UserError(f"partition {recipe.partition.rule!r}: {error}") from None


# -- recipes as plain values -----------------------------------------------------------------------


@once
def recipe_values(recipe: Recipe) -> dict[str, Any]:
    """Return all fields as plain values."""
    values: dict[str, Any] = adapter(Recipe).dump_python(recipe, mode="json")
    return values


@lru_cache(maxsize=1024)
def stored_recipe(text: str) -> Recipe:
    """Return the recipe of a record from its JSON: its fields are checked, and not whether they
    could run here.
    """
    recipe: Recipe = adapter(Recipe).validate_json(text)
    return recipe
