"""What goes wrong in ways a user can mend, each as one line: what, where, and the nearest valid
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

FINE, FINDING, INPUT, FAILED = 0, 1, 2, 3
"""Exit codes: all well; something stored or measured is not as it should be; the user's input is
wrong; some cells or artefacts failed.
"""


FROM_PLUGINS = ("method", "dataset", "model", "partition.rule", "paper", "name")
"""Of what plug-ins add names."""


class UserError(Exception):
    """What was asked for cannot be done: one line, and an exit code, which is 2 (wrong input)
    unless it is said otherwise.
    """

    def __init__(self, text: str, code: int = INPUT) -> None:
        super().__init__(text)
        self.code = code


class StoreError(UserError):
    """Nothing can be written where results should go: no further cell makes sense."""


class Corrupt(Exception):
    """A stored file is not what was written: one line that names it, exit code 1."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest valid names, as the end of a message; papers and pages write capital letters."""
    known = sorted(map(str, known))
    same = [each for each in known if each.lower() == name.lower()]
    return f"did you mean {' or '.join(same)}?" if same else data.suggest(name.lower(), known)


def unknown(what: str, name: str, known: Iterable[str], place: str = "") -> UserError:
    """The refusal of a name that nobody knows."""
    hint = nearest(name, known) + (" (or a missing plug-in)" if what in FROM_PLUGINS else "")
    return UserError(f"{place + ': ' if place else ''}unknown {what} {name!r}; {hint}")


def no_name(what: str, name: str, place: str, example: str) -> UserError:
    """The refusal of a name that could not safely become part of a path."""
    near = "-".join(re.findall(r"[a-z0-9]+", name.lower())) or example
    return UserError(
        f"{place}: {what} {name!r} is not valid; valid: letters a-z, digits and hyphens, such as"
        f" {near}"
    )


def one_line(error: BaseException) -> str:
    """An exception's message on one line, with the nearest name if an attribute was misspelt."""
    text = " ".join(str(error).split())
    if isinstance(error, AttributeError) and error.name:
        near = get_close_matches(error.name, [n for n in dir(error.obj) if n[0] != "_"], n=1)
        text += f"; did you mean {near[0]}?" if near else ""
    return text or type(error).__name__


def with_class(error: BaseException) -> str:
    """The same behind the exception's class; the messages of our own classes need none."""
    ours = type(error).__module__.startswith("repfl.")
    return one_line(error) if ours else f"{type(error).__name__}: {one_line(error)}"


# -- what pydantic refuses -------------------------------------------------------------------------

UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def refusal(error: ValidationError, cls: Any, place: str) -> UserError:
    """Return the first complaint of a validation, as one line: its place, its value and what is
    valid.
    """
    # an unknown field first: it may be a slip of the pen for the one that is missing
    problems = sorted(error.errors(include_url=False), key=lambda each: each["type"] not in UNKNOWN)
    first, others = problems[0], len(problems) - 1
    field, message = ".".join(map(str, first["loc"])), first["msg"]
    match first["type"]:
        case name if name in UNKNOWN:
            near = nearest(str(first["loc"][-1]), _fields_beside(cls, first["loc"]))
            if field in Training.__dataclass_fields__:  # at the top, or as a hyper-parameter
                near = f"did you mean training.{field}?"
            text = f"unknown field {field!r}; {near}"
        case "missing" | "missing_argument":
            text = f"field {field!r} is missing"
        case "value_error":  # what a validator of ours says
            text = f"{field}: {first['ctx']['error']}"
        case _:
            value = reprlib.repr(first["input"])
            text = f"{field} = {value} is not valid: {message[:1].lower()}{message[1:]}"
    return UserError(f"{place}: {text}{f' (and {others} more)' if others else ''}")


def _fields_beside(cls: Any, location: Sequence[int | str]) -> list[str]:
    """Return the fields that are valid at a place of a class, by its JSON schema."""
    schema: Any = TypeAdapter(cls).json_schema()
    definitions, known = schema.get("$defs", {}), list[str]()
    for step in location:
        if "anyOf" in schema:  # a table, or none
            schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
        schema = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
        known = list(schema.get("properties", {})) or known
        inner = schema.get("additionalProperties")
        found = schema.get("items") if isinstance(step, int) else schema.get("properties", {})
        schema = found if isinstance(step, int) else (found or {}).get(step, inner)
        schema = schema if isinstance(schema, Mapping) else {}
    return known
