"""What goes wrong in ways a user can mend, each as one line: what, where, and the nearest valid
choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from repfl.datasets.core import errors as data

FINE, FINDING, INPUT, FAILED = 0, 1, 2, 3
"""Exit codes: all well; something stored or measured is not as it should be; the user's input is
wrong; some cells or artefacts failed.
"""


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
    return UserError(
        f"{place + ': ' if place else ''}unknown {what} {name!r}; {nearest(name, known)}"
    )


def no_name(what: str, name: str, place: str, example: str) -> UserError:
    """The refusal of a name that could not safely become part of a path."""
    near = "-".join(re.findall(r"[a-z0-9]+", name.lower())) or example
    return UserError(
        f"{place}: {what} {name!r} is not valid; valid: letters a-z, digits and hyphens, such as"
        f" {near}"
    )


def one_line(error: BaseException) -> str:
    """An exception's message on one line, however it was written."""
    text = " ".join(str(error).split())
    return text or type(error).__name__


# -- what pydantic refuses -------------------------------------------------------------------------

UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def refusal(error: ValidationError, cls: Any, place: str) -> UserError:
    """The first complaint of a validation, as one line: its place, its value and what is valid.
    Pydantic speaks of many at once.
    """
    # an unknown field first: it may be a slip of the pen for the one that is missing
    problems = sorted(error.errors(include_url=False), key=lambda each: each["type"] not in UNKNOWN)
    first, others = problems[0], len(problems) - 1
    location = tuple(first["loc"])
    field = ".".join(map(str, location))
    schema, known = _field_schema(TypeAdapter(cls).json_schema(), location)
    match first["type"]:
        case name if name in UNKNOWN:
            text = f"unknown field {field!r}; {nearest(str(location[-1]), known)}"
        case "missing" | "missing_argument":
            text = f"field {field!r} is missing"
        case "value_error":  # what a validator of ours says
            text = f"{field}: {first['ctx']['error']}"
        case _:
            text = (
                f"{field} = {_shown(first['input'])} is not valid;"
                f" {_valid(schema, first['msg'])}{_hint(first['input'], schema)}"
            )
    return UserError(f"{place}: {text}{f' (and {others} more)' if others else ''}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _field_schema(
    schema: Mapping[str, Any], location: tuple[Any, ...]
) -> tuple[Mapping[str, Any], list[str]]:
    """JSON schema of a field, and the names of its siblings."""
    definitions, known = schema.get("$defs", {}), list(schema.get("properties", {}))
    for step in location:
        schema = _follow(schema, definitions)
        properties = schema.get("properties", {})
        known = list(properties) or known
        if isinstance(step, int):
            schema = schema.get("items", {})
        elif isinstance(schema.get("additionalProperties"), Mapping) and step not in properties:
            schema = schema["additionalProperties"]
        else:
            schema = properties.get(step, {})
    return _follow(schema, definitions), known


def _follow(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve references and look through `X or nothing`."""
    for option in schema.get("anyOf", []):
        if option.get("type") != "null":
            return _follow(option, definitions)
    reference = schema.get("$ref", "").rpartition("/")[2]
    return _follow(definitions[reference], definitions) if reference in definitions else schema


def choices(schema: Mapping[str, Any]) -> str:
    """The valid values of a field in words, from its JSON schema; empty when its type says it
    all.
    """
    if "enum" in schema or "const" in schema:
        return " or ".join(map(repr, schema.get("enum", [schema.get("const")])))
    limits = [
        f"{symbol} {schema[key]:.10g}"
        for key, symbol in (
            ("minimum", ">="),
            ("exclusiveMinimum", ">"),
            ("maximum", "<="),
            ("exclusiveMaximum", "<"),
            ("minItems", "of at least"),
        )
        if key in schema
    ]
    return " and ".join(limits)


def _valid(schema: Mapping[str, Any], otherwise: str) -> str:
    kinds = {
        "integer": "a whole number",
        "number": "a number",
        "string": "a text",
        "boolean": "true or false",
        "array": "a list",
    }
    kind, limits = kinds.get(schema.get("type", ""), ""), choices(schema)
    if "enum" in schema or "const" in schema:
        return f"valid: {limits}"
    if not kind and not limits:
        return " ".join(otherwise.split())
    return f"valid: {' '.join(part for part in (kind, limits) if part)}"


def _hint(value: Any, schema: Mapping[str, Any]) -> str:
    close = get_close_matches(str(value), map(str, schema.get("enum", [])), n=1, cutoff=0.4)
    return f" (did you mean {close[0]!r}?)" if close else ""


# -- where a TOML file sets something --------------------------------------------------------------

HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(
    r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(quoted or single or bare for quoted, single, bare in PART.findall(dotted))


def _places(text: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Line numbers with the dotted path that the line opens or sets."""
    table: tuple[Any, ...] = ()
    counts: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield number, table
        elif key := KEY.match(line):
            yield number, (*table, *_parts(key[1]))


def line_of(text: str, location: Sequence[Any], hints: Sequence[str] = ()) -> int:
    """The line that sets a place, or the innermost table around it; then the first line from there
    on that mentions each hint.
    """
    best, depth = 1, 0
    for number, path in _places(text):
        if len(path) > depth and tuple(location[: len(path)]) == path:
            best, depth = number, len(path)
    lines = text.splitlines()
    for hint in (*map(str, location[depth:]), *hints):
        word = re.compile(rf"(?<![\w-]){re.escape(hint)}(?![\w-])")
        for number in range(best, len(lines) + 1):
            if number > best and HEADER.match(lines[number - 1]):
                break
            if word.search(lines[number - 1]):
                best = number
                break
    return best
