"""Settings of training, scoring and participation: what the engine reads of an experiment.

Frozen and validated plain values. A recipe of `datasets` adds data, partition and model to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator
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
class FromTorch:
    """A class of `torch.optim` or `torch.optim.lr_scheduler`."""

    name: str = Field(description="its name, such as AdamW or CosineAnnealingLR")
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="its arguments, without those that `training` has"
    )


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Training:
    """Local training and the number of rounds."""

    rounds: int = Field(ge=1, description="communication rounds")
    epochs: int | float | None = Field(
        default=None,
        ge=0,
        description="local epochs per round; 0.5 is the first half of an epoch's mini-batches",
    )
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
    steps: int | None = added_later(
        None, "local steps per round instead of epochs: as many mini-batches for every client", ge=1
    )

    @model_validator(mode="after")
    def _has_one_length(self) -> Training:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("set one of epochs and steps")
        return self

    @property
    def has_whole_epochs(self) -> bool:
        """Whether methods can divide a round's epochs."""
        return self.epochs is not None and self.epochs == int(self.epochs)

    def epochs_of(self, samples: float) -> float:
        """Return the epochs that a round takes with a number of samples."""
        if self.steps is not None:
            return self.steps * self.batch / max(samples, 1)
        return self.epochs or 0


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


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TrainingProtocol:
    """One experiment, as far as training and scoring go."""

    training: Training = Field(description="local training and rounds")
    evaluation: Evaluation = Field(default=Evaluation(), description="scoring")
    participation: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description=(
            "share of the clients that take part in a round; the others are scored with what they"
            " have, which is initial values for a client that never trained"
        ),
    )
    sampling: Literal["keyed", "flbench"] = Field(
        default="keyed",
        description="how participants are drawn: keyed, or FL-bench's stream replayed",
    )
    newcomers: Newcomers | None = added_later(
        None, "unseen clients, which are scored after they have joined"
    )


def cohort_size(clients: int, participation: float) -> int:
    """Return how many clients take part in a round if a server samples them."""
    return max(1, round(participation * clients))
