"""The fields that every reader of a record relies on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from repfl.bench.store.store import Record


class Recipe(BaseModel):
    dataset: str
    evaluation: dict[str, Any]


class Cell(BaseModel):
    method: str
    version: int
    recipe: Recipe
    seed: int


class Platform(BaseModel):
    device: str
    torch: str
    fingerprint: str


class Libraries(BaseModel):
    python: str
    numpy: str


class Origin(BaseModel):
    """Provenance that every record has."""

    device: str
    precision: str
    chunk: int
    libraries: Libraries
    platform: Platform
    finished: str
    versions: dict[str, int | str] = {}  # records of early days have none


class Seconds(BaseModel):
    wall: float


class DoneOrigin(Origin):
    """Provenance of a record that is done."""

    data: dict[str, str]
    partition: str
    seconds: Seconds
    digests: dict[str, str]


class Metrics(BaseModel):
    """Metrics of a record that is done."""

    value: float | None
    round: int | None


def shape_problem(record: Record) -> str:
    """Return the first field that a record lacks or has in another form; empty if all is valid."""
    done = record.status == "done"
    parts: dict[str, tuple[type[BaseModel], Any]] = {
        "cell": (Cell, record.cell),
        "provenance": (DoneOrigin if done else Origin, record.provenance),
    }
    if done:
        parts["metrics"] = (Metrics, record.metrics)
    for name, (model, values) in parts.items():
        try:
            model.model_validate(values, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return f"{'.'.join((name, *map(str, first['loc'])))}: {first['msg'].lower()}"
    return ""
