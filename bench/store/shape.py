"""What every reader of a record may rely on, whoever wrote it."""

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


def misshapen(status: str, metrics: Any, provenance: Any) -> str:
    """The first thing that a record lacks or has otherwise; nothing if all is there."""
    wanted: dict[str, tuple[type[BaseModel], Any]] = {
        "provenance": (DoneOrigin if status == "done" else Origin, provenance)
    }
    if status == "done":
        wanted["metrics"] = (Metrics, metrics)
    for name, (kind, values) in wanted.items():
        try:
            kind.model_validate(values, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return f"{'.'.join((name, *map(str, first['loc'])))}: {first['msg'].lower()}"
    return ""
