"""Whatever a user hands over, the answer is at most one line: what, where, what would be valid.
Never a traceback. `REPFL_FUZZ` says how many inputs of each kind are tried.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repfl.algorithms.core.method import methods
from repfl.bench.grid.grid import ROOT as PAPERS
from repfl.bench.store.record import checksum
from tests.bench.conftest import GRID, ROOT, Here, Said

FUZZ = settings(
    max_examples=int(os.environ.get("REPFL_FUZZ", "15")),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXT = st.text(max_size=6)


def answered(said: Said, *codes: int) -> None:
    """Only the documented exit codes; wrong input costs one line."""
    assert said.code in codes, said
    assert "internal error" not in said.err
    if said.code == 2:
        assert said.err.count("\n") == 1
        assert said.err.startswith("repfl: ")


# -- arguments -------------------------------------------------------------------------------------

COMMANDS = (
    "plan report list info show verify data models claims --paper --artefact --method --dataset"
    " --seed --scale --cell --shard --json --fresh"
)
THINGS = (
    "fedpurin fedpurin/table1 fedpurin[tau=2] fedpurin[tau smoke desk digits 0 1 -1 1/2 1/ local[=]"
    " -- a/b/c [] list show ü"
)
WORDS = st.sampled_from(
    [*COMMANDS.split(), *THINGS.split(), "", "\x00", "\ud800", "-", "--", "9" * 40]
)


@FUZZ
@given(st.lists(st.one_of(WORDS, TEXT), max_size=6))
def test_no_arguments_lead_to_a_traceback(here: Here, arguments: list[str]) -> None:
    slow = ("run", "report", "reproduce", "check", "collect", "merge", "verify", "get", "import")
    answered(here(*("plan" if word in slow else word for word in arguments)), 0, 1, 2)


OPTIONS = "--paper --artefact --method --dataset --seed --cell --scale --shard"
NEARLY = "fedpurin fedpurin/fig5 FedPURIN fedpurin/ /fig5 local local[] digits smoke 1/1 0/0"
HYPER = [
    (name, field)
    for name, entry in sorted(methods().items())
    for field in (*vars(entry.cls.HP()), "x", "")
]
VALUE = st.one_of(
    TEXT,
    st.integers(),
    st.floats(),
    st.sampled_from(["none", "true", "[1,2]", "{}", "1e999", "-0", "0.5", "'", "[", "]", ",", "="]),
)
SELECTOR = st.one_of(
    st.tuples(st.sampled_from(OPTIONS.split()), st.one_of(st.sampled_from(NEARLY.split()), TEXT)),
    st.tuples(st.sampled_from(HYPER), VALUE).map(
        lambda pair: ("--method", f"{pair[0][0]}[{pair[0][1]}={pair[1]}]")
    ),
)


@FUZZ
@given(st.lists(SELECTOR, min_size=1, max_size=3))
def test_no_selector_leads_to_a_traceback(
    here: Here, tmp_path: Path, chosen: list[tuple[str, str]]
) -> None:
    selectors = [f"{option}={value}" for option, value in chosen]
    answered(here("plan", "--artefact", "fedpurin/fig5", "--results", tmp_path, *selectors), 0, 2)


# -- grids -----------------------------------------------------------------------------------------

LARGE = ("board", "fedobp")
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place in nested tables and lists."""
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return ([path] if path else []) + [
        place for key, inner in items for place in paths(inner, (*path, key))
    ]


# the two largest grids take seconds to plan, and have nothing that others lack
REAL = [path for path in sorted(PAPERS.glob("*/grid.toml")) if path.parent.name not in LARGE]
SOURCES = [GRID, *(path.read_text() for path in (*REAL, ROOT / "bench/examples/all_methods.toml"))]
PLACES = st.sampled_from(SOURCES).flatmap(
    lambda text: st.tuples(st.just(text), st.sampled_from(paths(tomllib.loads(text))))
)


@settings(FUZZ, max_examples=2 * FUZZ.max_examples)
@given(PLACES, st.one_of(VALUES, st.none()), st.booleans())
def test_no_grid_leads_to_a_traceback(
    here: Here, tmp_path: Path, where: tuple[str, tuple[Any, ...]], value: Any, remove: bool
) -> None:
    text, place = where
    content: Any = tomllib.loads(text)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if remove:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    path = tmp_path / "tests.toml"
    lines = [f"{json.dumps(key)} = {toml(item)}" for key, item in content.items()]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    said = here("plan", "--grid", path, "--results", tmp_path / "r")
    answered(said, 0, 2)
    assert said.code == 0 or "tests" in said.err


def toml(value: Any) -> str:
    """Return a value as TOML; what TOML cannot say becomes what a careless writer would write."""
    if isinstance(value, dict):
        fields = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {fields} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


# -- records ---------------------------------------------------------------------------------------


FIELDS = "schema id cell status reason metrics provenance files more"


@FUZZ
@given(st.sampled_from(FIELDS.split()), VALUES, st.booleans(), st.booleans())
def test_no_record_leads_to_a_traceback(
    here: Here, grid: Path, results: Path, place: str, value: Any, remove: bool, valid: bool
) -> None:
    """With and without a checksum that fits: somebody may have written a record by hand."""
    record = next(results.glob("*/record.json"))
    good = record.read_bytes()
    values = json.loads(good)
    if remove:
        values.pop(place, None)
    else:
        values[place] = value
    if valid:
        values["checksum"] = checksum(values)
    record.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")
    try:
        answered(here("verify", "--results", results), 0, 1)
        answered(here("show", record.parent.name, "--results", results), 0, 1, 2)
        answered(here("plan", "--grid", grid, "--results", results), 0, 2)
    finally:
        record.write_bytes(good)
