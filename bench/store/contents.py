"""What a record contains: the numbers of a run, and how they were made.

Both are read and checked once, when the JSON of a record or of a committed run is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError


class Contents(BaseModel):
    """A part of a record. What it has beyond the known fields is kept."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    @property
    def plain(self) -> dict[str, Any]:
        """The JSON values that were given, without defaults, names in order."""
        values: dict[str, Any] = _in_order(self.model_dump(exclude_unset=True))
        return values

    def changed(self, **fields: Any) -> Self:
        """Return a copy with other fields, checked as when it is read."""
        return self.model_validate(self.plain | fields)


def _in_order(values: Any) -> Any:
    """Return JSON values with sorted names, so that one record gives one text."""
    if isinstance(values, dict):
        return {name: _in_order(values[name]) for name in sorted(values)}
    return values


# -- what was computed -----------------------------------------------------------------------------


class StoredPartition(Contents):
    """What every reader of a stored partition relies on."""

    rule: str


class StoredRecipe(Contents):
    """What every reader of a stored recipe relies on."""

    dataset: str
    partition: StoredPartition
    evaluation: dict[str, Any]


class StoredCell(Contents):
    """What every reader of a stored cell relies on; it may be one that no grid can plan today."""

    method: str
    version: int
    recipe: StoredRecipe
    seed: int


# -- the numbers of a run --------------------------------------------------------------------------


AVERAGES = {"clients": "mean", "pooled": "pooled"}
"""Names of scores by the average over clients that a recipe reports."""


class Round(Contents):
    """Accuracies, as shares of 1, in a chosen round."""

    mean: float
    pooled: float
    round: int


class Point(Contents):
    """The scores at one scoring point."""

    last: dict[str, float]
    """After the last round: `mean`, `pooled`, `std`, `decile`, and the recipe's own metrics."""
    max: Round
    """In the round with the best test accuracy."""
    best_val: Round | None
    """In the round with the best validation accuracy; None without validation data."""


class Floor(Contents):
    """Accuracy of always predicting a client's most frequent class, by average over clients."""

    clients: float
    pooled: float

    def by(self, average: str) -> float:
        """Return it by the average of a recipe."""
        return self.pooled if average == "pooled" else self.clients


class Traffic(Contents):
    """Bytes of all messages, by direction and kind."""

    up_values: int
    up_codes: int
    down_values: int
    down_codes: int

    @property
    def total(self) -> int:
        return self.up_values + self.up_codes + self.down_values + self.down_codes


class Metrics(Contents):
    """The numbers of a run that is done. Old committed runs may lack all but the first two."""

    value: float | None
    """The reported accuracy, as a share of 1; None if no round can be chosen by the rule."""
    round: int | None
    """The round that it is of."""
    points: dict[str, Point] = {}
    floor: Floor | None = None
    traffic: Traffic | None = None
    notes: dict[str, float] = {}
    """What the method noted, after the last round."""
    parameters: int | None = None

    def last(self, point: str) -> dict[str, float]:
        """Return the scores at a scoring point after the last round; empty if it was not scored."""
        return self.points[point].last if point in self.points else {}

    def score(self, point: str, rule: str, average: str) -> float | None:
        """Return the accuracy at a scoring point by the rule and the average of a recipe."""
        name = AVERAGES[average]
        if rule == "last":
            return self.last(point).get(name)
        scores = self.points.get(point)
        chosen = scores and (scores.max if rule == "max" else scores.best_val)
        return getattr(chosen, name) if chosen else None


# -- how they were made ----------------------------------------------------------------------------


class Platform(Contents):
    """What two computations must share to agree bit for bit."""

    device: str
    torch: str
    fingerprint: str


class Libraries(Contents):
    """Versions of libraries by name."""

    python: str
    numpy: str


class Seconds(Contents):
    """The time of a run."""

    wall: float
    train: float
    evaluate: float
    processor: float | None = None
    """Of the processor, if it was measured."""


class Work(Contents):
    """What a run computed, as far as it was counted."""

    multiply_adds: int
    clients: int
    rounds: int | None = None


class Provenance(Contents):
    """How a run was made. What only a run with numbers has is None in others."""

    device: str
    precision: str
    chunk: int
    """Clients that were computed at once."""
    libraries: Libraries
    platform: Platform
    finished: str
    versions: dict[str, int | str] = {}
    """Of engine, method, data set and rule; records of early days have none."""
    commit: str | None = None
    dirty: bool | None = None
    """Whether the code differed from the commit."""
    command: str = ""
    contributor: str = ""
    data: dict[str, str] | None = None
    """Fingerprints of the data set's splits."""
    partition: str | None = None
    seconds: Seconds | None = None
    samples: int | None = None
    peak_memory: int | None = None
    work: Work | None = None
    digests: dict[str, str] | None = None
    """What must be equal when the cell is computed again."""
    norms: dict[str, list[float | None]] = {}
    """Root mean squares of the state, by round, where they were asked for."""
    models: str = ""
    """Of which round models were kept, if any."""
    traceback: str = ""

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    def unlike(self, other: Provenance) -> list[str]:
        """Return what keeps two runs of a cell from having the same bits; if it is nothing, they
        must have.
        """
        unlike = [name for name in CONDITIONS if getattr(self, name) != getattr(other, name)]
        unlike += ["data"] * bool(other_data(self.data or {}, other.data or {}))
        return unlike + ["uncommitted changes"] * bool(self.dirty or other.dirty)


def other_data(one: Mapping[str, str], two: Mapping[str, str]) -> list[str]:
    """Return what has other fingerprints in two records, such as `digits/all`. Older ones do not
    name groups and source ids, which then say nothing.
    """
    from repfl.datasets.core.cache import SIDES

    either = [name for name in one.keys() ^ two if name.partition("/")[2] not in SIDES]
    return sorted(either + [name for name in one.keys() & two if one[name] != two[name]])


CONDITIONS = ("versions", "platform", "precision", "chunk")
"""Provenance that two runs must share to give the same bits."""

NEEDED = ("data", "partition", "seconds", "digests")
"""Provenance that every run with numbers has."""


def lacking(status: str, metrics: Metrics | None, origin: Provenance | None) -> str:
    """Return what a result of this status must have and has not; empty if it is whole."""
    if origin is None:
        return "provenance: field required"
    if status != "done":
        return ""
    missing = [name for name in NEEDED if getattr(origin, name) is None]
    missing = ["metrics"] * (metrics is None) + [f"provenance.{name}" for name in missing]
    return f"{missing[0]}: field required" if missing else ""


def problem_of(error: ValidationError, name: str) -> str:
    """Return the first fault of a part, in one line."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join((name, *map(str, first['loc'])))}: {first['msg'].lower()}"
