"""The fields that every reader of a record relies on."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError


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


def shape_problem(status: str, metrics: Any, provenance: Any) -> str:
    """Return the first field that a record lacks or has in another form; empty if all is valid."""
    parts: dict[str, tuple[type[BaseModel], Any]] = {
        "provenance": (DoneOrigin if status == "done" else Origin, provenance)
    }
    if status == "done":
        parts["metrics"] = (Metrics, metrics)
    for name, (model, values) in parts.items():
        try:
            model.model_validate(values, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return f"{'.'.join((name, *map(str, first['loc'])))}: {first['msg'].lower()}"
    return ""
