"""How a method and its options are written in one word: `fedpurin[tau=0.3,bn=full]`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from repfl.bench.errors import UserError

SPEC = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<options>.*)\])?")


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """`fedpurin[tau=0.3,bn=full]` as a name and hyper-parameters."""
    match = SPEC.fullmatch(text.strip())
    if match is None:
        raise UserError(
            f"method {text!r} is not of the form name or name[option=value,option=value]"
        )
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in (match["options"] or "").split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise UserError(f"method {text!r}: {part!r} is not of the form option=value")
        options[key.strip()] = _literal(value.strip())
    return match["name"], options


def _literal(text: str) -> Any:
    """A number, true, false or null where it reads as one; otherwise the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip("'\"")


def spec(method: str, hp: Mapping[str, Any]) -> str:
    """The inverse of `parse_spec`."""
    options = ",".join(f"{key}={_spelled(value)}" for key, value in hp.items())
    return f"{method}[{options}]" if options else method


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value)
