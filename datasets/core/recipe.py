"""A recipe: everything about an experiment that is neither the method nor the seed.

Dataset x partition x model x protocol, frozen and validated. Fields are plain values, so a recipe
has one canonical JSON form; nothing here computes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True, config=STRICT)
class Partition:
    """How the pool of samples is dealt to clients."""

    rule: str = Field(description="name of a partitioner")
    seed: int | None = Field(
        default=None, ge=0, description="seed of the partition; none means the seed of the cell"
    )
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="the partitioner's own parameters"
    )
    val_share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description=(
            "share of a client's training samples that are set apart for validation; none: the"
            " rule's own, if any"
        ),
    )

    def seed_in(self, cell_seed: int) -> int:
        """The seed that deals the data of a cell."""
        return cell_seed if self.seed is None else self.seed


@dataclass(frozen=True, config=STRICT)
class Training:
    """What a client does between receiving a model and returning one, and how often."""

    rounds: int = Field(ge=1, description="communication rounds")
    epochs: int = Field(ge=0, description="local epochs per round")
    batch: int = Field(ge=1, description="mini-batch size")
    lr: float = Field(gt=0, description="SGD learning rate")
    momentum: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="SGD momentum; the buffer starts at zero in every round",
    )
    weight_decay: float = Field(default=0.0, ge=0, description="SGD weight decay")
    lr_decay: float = Field(
        default=1.0, gt=0, le=1, description="factor on the learning rate after every round"
    )
    clip: float = Field(
        default=0.0, ge=0, description="limit of a client's gradient norm; 0 switches it off"
    )
    skip_single: bool = Field(
        default=False, description="skip mini-batches of one sample, as FL-bench does"
    )
    weighting: Literal["samples", "uniform"] = Field(
        default="samples", description="weights of the server's averages"
    )
    buffers: Literal["local", "global"] = Field(
        default="local", description="BN statistics: each client's own, or averaged like weights"
    )
    start: Literal["common", "own"] = Field(
        default="common", description="initial values of entries that are never synchronised"
    )


@dataclass(frozen=True, config=STRICT)
class Evaluation:
    """When models are scored, and which number is reported."""

    every: int = Field(
        default=1,
        ge=0,
        description="score every so many rounds, and after the last; 0: only after the last",
    )
    start_every: int | None = Field(
        default=None,
        ge=0,
        description="the same for point `start`, which scores the cohort alone; none: as `every`",
    )
    finetuned_every: int = Field(
        default=0,
        ge=0,
        description="the same for methods that must train before they can be scored",
    )
    points: tuple[Literal["start", "pre_agg", "post_agg"], ...] = Field(
        default=("pre_agg", "post_agg"),
        description=(
            "scoring points: the cohort before training, the cohort after it, everybody after the"
            " round"
        ),
    )
    point: str = Field(default="post_agg", description="the scoring point that is reported")
    average: Literal["clients", "pooled"] = Field(
        default="clients", description="unweighted mean over clients, or pooled over test samples"
    )
    rule: Literal["last", "max", "best-val"] = Field(
        default="last", description="which of the scored rounds is reported"
    )
    rounds: tuple[int, ...] = Field(
        default=(), description="the rounds that rule `max` looks at; empty: all scored ones"
    )
    tallies: tuple[str, ...] = Field(
        default=(), description="diagnostics to keep, such as mask frequencies"
    )


@dataclass(frozen=True, config=STRICT)
class Newcomers:
    """Clients that take no part in any round, and join when all rounds are over."""

    share: float = Field(gt=0, lt=1, description="share of the clients, one at least")
    samples: int = Field(ge=1, description="training samples that a newcomer has at most")
    epochs: int = Field(ge=0, description="epochs of local training before it is scored")

    def count(self, clients: int) -> int:
        """How many of so many clients."""
        return max(1, round(self.share * clients))


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """One experiment without its method and seed."""

    dataset: str = Field(description="name of a dataset")
    model: str = Field(description="name of a model")
    clients: int = Field(ge=1, description="number of clients N")
    partition: Partition = Field(description="how samples are dealt")
    training: Training = Field(description="local training and rounds")
    evaluation: Evaluation = Field(default=Evaluation(), description="scoring")
    norm: str = Field(default="unit", description="input normalisation, one of the dataset's own")
    augment: str = Field(default="none", description="training augmentation")
    participation: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients that take part in a round"
    )
    sampling: Literal["keyed", "flbench"] = Field(
        default="keyed", description="who takes part: our keyed draw, or FL-bench's stream replayed"
    )
    input: tuple[int, int, int] | None = Field(
        default=None,
        description=(
            "(channels, height, width) that images are repeated and padded to; none: as they are"
        ),
    )
    classes: int | None = Field(
        default=None,
        ge=2,
        description="width of the model's head; none: the dataset's number of classes",
    )
    newcomers: Newcomers | None = Field(
        default=None, description="clients that never train, and are scored once they have joined"
    )

    @property
    def residents(self) -> int:
        """Clients that are there from the start."""
        return self.clients - (self.newcomers.count(self.clients) if self.newcomers else 0)


SILENT = (("partition", "val_share"), ("newcomers",))
"""Fields that came later: where they are none, they are no part of a recipe's canonical form, so
that cells of earlier recipes keep their ids.
"""
