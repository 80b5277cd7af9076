"""Errors that a user can fix, each as one line: what is wrong, where, and the nearest valid
choice.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from repfl.datasets.core import errors as data
from repfl.datasets.core.recipe import Training

FINE, FINDING, INPUT, FAILED, INTERNAL = 0, 1, 2, 3, 4
"""Exit codes: all well; something stored or measured is not as it should be; the user's input is
wrong; some cells or artefacts failed; repfl itself failed.
"""
MAX_MESSAGE = 1000
"""Characters of an exception's message that are shown; a record's traceback has them all."""


PLUGIN_KINDS = ("method", "dataset", "model", "partition.rule", "paper", "name")
"""Kinds of names that plug-ins can add."""


class UserError(Exception):
    """An error that the user can fix: one line, and an exit code, by default 2 (wrong input)."""

    def __init__(self, text: str, code: int = INPUT) -> None:
        super().__init__(text)
        self.code = code


class StoreError(UserError):
    """The results folder cannot be written: no further cell can be stored."""


class Corrupt(Exception):
    """A stored file has changed since it was written: one line that names it, exit code 1."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the nearest valid names, as the end of a message; case does not matter."""
    names = sorted(map(str, names))
    equal = [each for each in names if each.lower() == name.lower()]
    return f"did you mean {' or '.join(equal)}?" if equal else data.suggest(name, names)


def unknown(kind: str, name: str, names: Iterable[str], location: str = "") -> UserError:
    """Return the error for an unknown name."""
    hint = nearest(name, names) + (" (or a missing plug-in)" if kind in PLUGIN_KINDS else "")
    return UserError(f"{location + ': ' if location else ''}unknown {kind} {name!r}; {hint}")


def no_name(kind: str, name: str, location: str, example: str) -> UserError:
    """Return the error for a name that could not safely become part of a path."""
    suggestion = "-".join(re.findall(r"[a-z0-9]+", name.lower())).lstrip("-0123456789") or example
    return UserError(
        f"{location}: {kind} {name!r} is not valid; valid: letters a-z, digits and hyphens, such as"
        f" {suggestion}"
    )


HINTS = {
    "respect to argument 'running_": "batch-norm statistics have no gradient: ask for that of the"
    " tensors in `fed.params.trained`",
    "Batching rule not implemented": "torch.vmap cannot stack this operation: run with --stack 1",
}
"""What to do about some errors of PyTorch, by words of theirs."""


def one_line(error: BaseException) -> str:
    """Return an exception's message on one line, with the nearest name for a misspelt attribute."""
    text = " ".join(str(error).split())
    if isinstance(error, AttributeError) and error.name:
        matches = get_close_matches(error.name, [n for n in dir(error.obj) if n[0] != "_"], n=1)
        text += f"; did you mean {matches[0]}?" if matches else ""
    text += next((f"; {hint}" for words, hint in HINTS.items() if words in text), "")
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]}... ({len(text):,} characters)"
    return text or type(error).__name__


def with_class(error: BaseException) -> str:
    """Return the message after the exception's class; the messages of our own classes need none."""
    ours = type(error).__module__.startswith("repfl.")
    return one_line(error) if ours else f"{type(error).__name__}: {one_line(error)}"


# -- what pydantic refuses -------------------------------------------------------------------------

UNKNOWN_FIELD_TYPES = ("unexpected_keyword_argument", "extra_forbidden")


def refusal(error: ValidationError, cls: Any, location: str) -> UserError:
    """Return the first problem of a validation as one line: its field, its value and what is
    valid.
    """
    # of a field that may be an int or a float, the last problem: that it is no number
    by_field = {_field_of(problem["loc"]): problem for problem in error.errors(include_url=False)}
    # an unknown field first: it may be a slip of the pen for the one that is missing
    problems = list(by_field.values())
    problems.sort(key=lambda problem: problem["type"] not in UNKNOWN_FIELD_TYPES)
    first, further = problems[0], len(problems) - 1
    field, message = _field_of(first["loc"]), first["msg"]
    match first["type"]:
        case name if name in UNKNOWN_FIELD_TYPES:
            hint = nearest(str(first["loc"][-1]), _fields_beside(cls, first["loc"]))
            if field in Training.__dataclass_fields__:  # at the top, or as a hyper-parameter
                hint = f"did you mean training.{field}?"
            text = f"unknown field {field!r}; {hint}"
        case "missing" | "missing_argument":
            text = f"field {field!r} is missing"
        case "value_error":  # what a validator of ours says
            text = f"{field}: {first['ctx']['error']}"
        case _:
            value = reprlib.repr(first["input"])
            text = f"{field} = {value} is not valid: {message[:1].lower()}{message[1:]}"
    return UserError(f"{location}: {text}{f' (and {further} more)' if further else ''}")


def _field_of(location: Sequence[int | str]) -> str:
    """Return the dotted name of a field, without the type that pydantic tried."""
    return ".".join(str(part) for part in location if part not in ("int", "float"))


def _fields_beside(cls: Any, location: Sequence[int | str]) -> list[str]:
    """Return the valid fields at one level of a class, from its JSON schema."""
    schema: Any = TypeAdapter(cls).json_schema()
    definitions, fields = schema.get("$defs", {}), list[str]()
    for step in location:
        if "anyOf" in schema:  # a table, or none
            schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
        schema = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
        fields = list(schema.get("properties", {})) or fields
        inner = schema.get("additionalProperties")
        table = schema.get("items") if isinstance(step, int) else schema.get("properties", {})
        schema = table if isinstance(step, int) else (table or {}).get(step, inner)
        schema = schema if isinstance(schema, Mapping) else {}
    return fields
