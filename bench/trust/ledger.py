"""The ledger of engines: whether a number that earlier code computed is what today's would compute.

engines.csv has one row per method and pair of commits whose code was compared. A row is written by
`repfl compare OLD NEW --record`, never by hand, and stays for good. What it rests on:

code     The method's file and the engine are the same in both, but for comments, docstrings,
         layout.
cells    Otherwise every cell of the gate (float64) and of the smoke scale that both commits can
         build was computed by both, in one place, and came out equal: the bits of the final state,
         of all curves and diagnostics, and every metric. And the clients of every recipe of every
         grid were dealt the same samples, normalised by the same numbers, wherever the data were at
         hand.
moved    What was not equal first. Such a row carries nothing, unless the options and settings of
         cells tell what moved from what did not.
but      Then it names all that tell them apart: what every cell that moved has and no equal one
         (`cutoff=empty`), and what every equal one has and none that moved
         (`!recipe.participation=1`). A cell is carried if it is on the side of the equal ones in
         each of these.

A value is *current* if rows of its method lead from the code that computed it to today's, else
*stale*. Equal bits are equal in both directions and from one pair to the next, so rows form chains.
A method that a row does not name is not carried across it: what was not compared is not known. This
is evidence and not proof: a change that touches only what neither the gate nor the smoke scale runs
through would pass, as it would pass the gate; that is why these run through whatever the papers'
grids use.

After a change of code, one command compares and writes the rows, and one commits them:

    repfl compare v1.0 HEAD --record
    git commit -m "The ledger: today's code computes what v1.0 computed" bench/trust/engines.csv

It takes as long as the gate and the smoke scale, once per commit: answers are kept, also when it is
stopped, so that it goes on where it was. What moved is told method by method. Values whose method
moved by intent are stale from then on: `repfl plan --stale` lists them, `repfl run --stale`
computes them again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from repfl.bench.cells.valid import dotted
from repfl.bench.errors import Corrupt
from repfl.bench.records import sources as code
from repfl.bench.records.provenance import data_moved

FILE = Path(__file__).with_name("engines.csv")
DIGITS = 16
"""How much of a hash a row keeps."""


class Code(NamedTuple):
    """What computed a number: two hashes, shortened."""

    engine: str
    method: str

    def __str__(self) -> str:
        return f"engine {self.engine[:8]}, method {self.method[:8]}"


@dataclass(frozen=True)
class Step:
    """A method's code in two commits, and what was found when it was compared."""

    method: str
    old_engine: str
    old_method: str
    new_engine: str
    new_method: str
    old_commit: str
    new_commit: str
    platform: str = ""
    """Where cells were computed; empty: the code is the same, and none were."""
    gate: int = 0
    """Cells of the gate that came out equal."""
    smoke: int = 0
    views: int = 0
    """Recipes by which clients hold the same data."""
    moved: str = ""
    """What was not equal first, in words; empty: all was."""
    but: str = ""
    """What tells the cells that moved from the equal ones; empty: nothing does."""

    @property
    def old(self) -> Code:
        return Code(self.old_engine, self.old_method)

    @property
    def new(self) -> Code:
        return Code(self.new_engine, self.new_method)

    def carries(self, known: frozenset[str]) -> bool:
        """Whether a cell with these options and settings is on the side of what was equal."""
        wanted, unwanted = self._sides()
        return not self.moved or (bool(self.but) and wanted <= known and not unwanted & known)

    def _sides(self) -> tuple[set[str], set[str]]:
        words = self.but.split()
        return {word[1:] for word in words if word[0] == "!"}, {
            word for word in words if word[0] != "!"
        }


class Standing(NamedTuple):
    """Whether a number is what would be computed today, and why not."""

    current: bool
    reason: str = ""


def code_of(sources: Mapping[str, str]) -> Code:
    """The code that provenance names."""
    return Code(sources.get("engine", "")[:DIGITS], sources.get("method", "")[:DIGITS])


_written = json.JSONEncoder(separators=(",", ":")).encode
"""`json.dumps` would make an encoder for every value."""


def facts(cell: Mapping[str, Any]) -> frozenset[str]:
    """Every option of a cell's method and every setting of its recipe, as `name=value`."""
    known = dotted(cell["hp"]) | dotted(cell["recipe"], "recipe.")
    texts = {name: _written(value).strip('"').replace(" ", "_") for name, value in known.items()}
    return frozenset(f"{name}={text}" for name, text in texts.items())


def apart(moved: Sequence[Mapping[str, Any]], equal: Sequence[Mapping[str, Any]]) -> str:
    """What tells cells that moved from equal ones; a cell that is like neither is not carried."""
    if not moved or not equal:
        return ""
    ours, theirs = list(map(facts, moved)), list(map(facts, equal))
    unwanted = frozenset.intersection(*ours) - frozenset.union(*theirs)
    wanted = frozenset.intersection(*theirs) - frozenset.union(*ours)
    return " ".join([*sorted(unwanted), *(f"!{each}" for each in sorted(wanted))])


def standing(sources: Mapping[str, str], cell: Mapping[str, Any]) -> Standing:
    """The standing of a cell's number, computed by code with these sources."""
    method = cell["method"]
    try:
        today = code_of(code.of_cell(cell))
    except KeyError:
        return Standing(False, f"there is no method {method!r} today")
    made = code_of(sources)
    return Standing(True) if made == today else _led(made, today, _steps_of(method), facts(cell))


def of_record(provenance: Mapping[str, Any], cell: Mapping[str, Any]) -> Standing:
    """The standing of what is in a store; of data that have changed since, it is no result."""
    for moved in data_moved(provenance.get("data") or {}):
        return Standing(False, f"made with other data: {moved}")
    return standing(provenance.get("sources") or {}, cell)


def of_line(provenance: Mapping[str, Any], cell: Mapping[str, Any]) -> Standing:
    """The standing of a measured value; what a clone with changes computed, nobody can look at."""
    if provenance.get("dirty"):
        return Standing(
            False, f"made from a clone with changes, at commit {str(provenance.get('commit'))[:8]}"
        )
    return standing(provenance.get("sources") or {}, cell)


def _led(made: Code, today: Code, steps: Sequence[Step], known: frozenset[str]) -> Standing:
    """Follow the rows that carry a cell with these options and settings."""
    broken = {frozenset((step.old, step.new)): step for step in steps if not step.carries(known)}
    reached, waiting = {made}, [made]
    while waiting:
        at = waiting.pop()
        for step in steps:
            if at in (pair := frozenset((step.old, step.new))) and pair not in broken:
                waiting += pair - reached
                reached |= pair
    if today in reached:
        return Standing(True)
    for pair, step in broken.items():
        if pair & reached:
            return Standing(
                False,
                f"moved between {step.old_commit[:8]} and {step.new_commit[:8]}: {step.moved}",
            )
    other = "method's file" if made.engine == today.engine else "engine"
    return Standing(
        False, f"the {other} has changed since: made by {made}; nobody has compared the two"
    )


# -- the file --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _steps_of(method: str) -> list[Step]:
    return [step for step in read_ledger() if step.method == method]


def read_ledger(path: Path | None = None) -> list[Step]:
    """All rows of the ledger; a bad one is refused, since a number would be believed for it."""
    path = path or FILE
    names = [field.name for field in fields(Step)]
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != names:
            found = ", ".join(reader.fieldnames or ())
            raise Corrupt(f"{path}:1: columns are {found}; expected {', '.join(names)}")
        return [_step(row, f"{path}:{reader.line_num}") for row in reader]


def _step(row: dict[str, Any], place: str) -> Step:
    try:
        counts = {name: int(row[name]) for name in ("gate", "smoke", "views")}
        step = Step(**row | counts)
    except (TypeError, ValueError):
        raise Corrupt(
            f"{place}: is not a row; `git checkout` brings back what was written"
        ) from None
    if any(
        len(key) != DIGITS or set(key) - set("0123456789abcdef") for key in (*step.old, *step.new)
    ):
        raise Corrupt(f"{place}: its hashes are not of {DIGITS} hexadecimal digits")
    if not step.moved and step.platform and not step.gate + step.smoke:
        raise Corrupt(f"{place}: claims to have compared cells, and counts none")
    return step


def append(steps: Iterable[Step], path: Path | None = None) -> int:
    """Add rows that are not there yet; returns how many."""
    path = path or FILE
    known = read_ledger(path)
    fresh = [step for step in dict.fromkeys(steps) if step not in known]
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, [field.name for field in fields(Step)], lineterminator="\n").writerows(
            map(asdict, fresh)
        )
    _steps_of.cache_clear()
    return len(fresh)
