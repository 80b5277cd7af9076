"""A recipe: everything about an experiment except the method and the seed.

Dataset x partition x model x protocol, frozen and validated. Fields are plain values, so a recipe
has one canonical JSON form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.algorithms.core.settings import (
    STRICT,
    Evaluation,
    FromTorch,
    Newcomers,
    Training,
    TrainingProtocol,
    added_later,
    cohort_size,
)

__all__ = ["Evaluation", "FromTorch", "Newcomers", "Partition", "Public", "Recipe", "Training"]


@dataclass(frozen=True, config=STRICT)
class Partition:
    """How samples are partitioned over clients."""

    rule: str = Field(description="name of a partitioner")
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**32,
        description="seed of the partition; None: the seed of the cell",
    )
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="the partitioner's own parameters"
    )
    val_share: float | None = added_later(
        None,
        "share of a client's training samples that is held out for validation; None: the"
        " partitioner's own, if any",
        gt=0,
        lt=1,
    )

    def seed_in(self, cell_seed: int) -> int:
        """Return the seed that partitions the data of a cell."""
        return cell_seed if self.seed is None else self.seed


@dataclass(frozen=True, config=STRICT)
class Public:
    """Samples that the server and all clients have, without labels."""

    samples: int = Field(ge=1, description="how many training samples no client keeps")


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Recipe(TrainingProtocol):
    """One experiment without its method and seed."""

    dataset: str = Field(description="name of a dataset")
    model: str = Field(description="name of a model")
    clients: int = Field(ge=1, description="number of clients N")
    partition: Partition = Field(description="how samples are partitioned")
    norm: str = Field(default="unit", description="input normalisation, one of the dataset's")
    augment: str = Field(default="none", description="training augmentation")
    input: tuple[int, int, int] | None = Field(
        default=None,
        description=(
            "(channels, height, width) that images are repeated and padded to; None: unchanged"
        ),
    )
    classes: int | None = Field(
        default=None,
        ge=2,
        description="width of the model's head; None: the dataset's number of classes",
    )
    public: Public | None = added_later(
        None,
        "unlabelled samples for methods that share some, held out of all clients' training samples",
    )

    @property
    def residents(self) -> int:
        """The number of clients that train from the start."""
        return self.clients - (self.newcomers.count(self.clients) if self.newcomers else 0)

    def cohort(self, decentralised: bool = False) -> int:
        """Return how many clients train in a round: all residents if there is no server."""
        return self.residents if decentralised else cohort_size(self.residents, self.participation)
