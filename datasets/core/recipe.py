"""A recipe: everything about an experiment except the method and the seed.

Dataset x partition x model x protocol, frozen and validated. Fields are plain values, so a recipe
has one canonical JSON form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(strict=True, extra="forbid")


def added_later(default: Any, description: str, **limits: Any) -> Any:
    """A field added after cells were published: left out of the canonical JSON while it has its
    default, so that the ids of existing cells do not change.
    """
    return Field(
        default, description=description, exclude_if=lambda value: value == default, **limits
    )


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
class FromTorch:
    """A class of `torch.optim` or `torch.optim.lr_scheduler`."""

    name: str = Field(description="its name, such as AdamW or CosineAnnealingLR")
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="its arguments, without those that `training` has"
    )


@dataclass(frozen=True, config=STRICT)
class Training:
    """Local training and the number of rounds."""

    rounds: int = Field(ge=1, description="communication rounds")
    epochs: int = Field(ge=0, description="local epochs per round")
    batch: int = Field(ge=1, description="mini-batch size")
    lr: float = Field(gt=0, description="learning rate")
    momentum: float = Field(
        default=0.0, ge=0, lt=1, description="momentum, whose buffer starts at zero in every round"
    )
    weight_decay: float = Field(default=0.0, ge=0, description="weight decay")
    lr_decay: float = Field(
        default=1.0, gt=0, le=1, description="factor on the learning rate after every round"
    )
    clip: float = Field(default=0.0, ge=0, description="limit of a client's gradient norm; 0: off")
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
    optimiser: FromTorch | None = added_later(
        None,
        "an optimiser of torch.optim with lr, momentum and weight_decay of `training`, fresh in"
        " every local training; None: SGD",
    )
    scheduler: FromTorch | None = added_later(
        None,
        "a schedule of torch.optim.lr_scheduler, which steps after every round and sets the"
        " learning rate alone; None: lr_decay",
    )


@dataclass(frozen=True, config=STRICT)
class Evaluation:
    """When models are scored, and which number is reported."""

    every: int = Field(
        default=1, ge=0, description="score every n-th round and the last; 0: only the last"
    )
    start_every: int | None = Field(
        default=None,
        ge=0,
        description="the same for point `start`, which scores only the cohort; None: as `every`",
    )
    finetuned_every: int = Field(
        default=0,
        ge=0,
        description="the same for methods that must train before they can be scored",
    )
    points: tuple[Literal["start", "pre_agg", "post_agg"], ...] = Field(
        default=("pre_agg", "post_agg"),
        description=(
            "scoring points: the cohort before training, the cohort after it, all clients after"
            " the round"
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
    metrics: tuple[str, ...] = added_later(
        (), "metrics to record beside accuracy, such as auc and loss"
    )


@dataclass(frozen=True, config=STRICT)
class Newcomers:
    """Unseen clients: they join when all rounds are over."""

    share: float = Field(gt=0, lt=1, description="share of the clients, at least one")
    samples: int = Field(ge=1, description="maximum number of training samples of a newcomer")
    epochs: int = Field(ge=0, description="epochs of local training before it is scored")

    def count(self, clients: int) -> int:
        """Return the number of newcomers among `clients`."""
        return max(1, round(self.share * clients))


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """One experiment without its method and seed."""

    dataset: str = Field(description="name of a dataset")
    model: str = Field(description="name of a model")
    clients: int = Field(ge=1, description="number of clients N")
    partition: Partition = Field(description="how samples are partitioned")
    training: Training = Field(description="local training and rounds")
    evaluation: Evaluation = Field(default=Evaluation(), description="scoring")
    norm: str = Field(default="unit", description="input normalisation, one of the dataset's")
    augment: str = Field(default="none", description="training augmentation")
    participation: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients that take part in a round"
    )
    sampling: Literal["keyed", "flbench"] = Field(
        default="keyed",
        description="how participants are drawn: keyed, or FL-bench's stream replayed",
    )
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
    newcomers: Newcomers | None = added_later(
        None, "unseen clients, which are scored after they have joined"
    )

    @property
    def residents(self) -> int:
        """The number of clients that train from the start."""
        return self.clients - (self.newcomers.count(self.clients) if self.newcomers else 0)
