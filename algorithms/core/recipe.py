"""What the engine reads of a recipe: fields, not a class, since methods do not import data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Protocol


class FromTorch(Protocol):
    """A class of PyTorch by name."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Any]: ...


class Training(Protocol):
    """Local training and rounds."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rounds(self) -> int: ...
    @property
    def epochs(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def lr(self) -> float: ...
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def lr_decay(self) -> float: ...
    @property
    def clip(self) -> float: ...
    @property
    def skip_single(self) -> bool: ...
    @property
    def weighting(self) -> Literal["samples", "uniform"]: ...
    @property
    def buffers(self) -> Literal["local", "global"]: ...
    @property
    def start(self) -> Literal["common", "own"]: ...
    @property
    def optimiser(self) -> FromTorch | None: ...
    @property
    def scheduler(self) -> FromTorch | None: ...


class Evaluation(Protocol):
    """When models are scored, and what else is recorded."""

    @property
    def every(self) -> int: ...
    @property
    def start_every(self) -> int | None: ...
    @property
    def finetuned_every(self) -> int: ...
    @property
    def points(self) -> tuple[Literal["start", "pre_agg", "post_agg"], ...]: ...
    @property
    def rounds(self) -> tuple[int, ...]: ...
    @property
    def tallies(self) -> tuple[str, ...]: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...


class Newcomers(Protocol):
    """Clients that join when all rounds are over."""

    @property
    def epochs(self) -> int: ...


class Recipe(Protocol):
    """One experiment, as far as training and scoring go."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def participation(self) -> float: ...
    @property
    def sampling(self) -> Literal["keyed", "flbench"]: ...
    @property
    def training(self) -> Training: ...
    @property
    def evaluation(self) -> Evaluation: ...
    @property
    def newcomers(self) -> Newcomers | None: ...


def cohort_size(clients: int, participation: float) -> int:
    """How many clients take part in a round where a server calls them."""
    return max(1, round(participation * clients))
