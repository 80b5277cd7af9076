"""Sentences of a paper as contrasts of table cells: the `claims.toml` beside its grid.

```toml
[names]
others = ["FedAvg", "FedPer", "FedBN"]
everywhere = ["cifar10", "cifar100"]

[[claim]]
id = "above-others"
artefact = "table1"
place = "4.2"
text = "Ours lies above all others in every setting"
rows = ["Ours"]                  # each of these rows ...
over = "others"                  # ... minus each of those,
columns = "everywhere"           # in each of these columns,
more_than = 0                    # is above this (the default)
```

* An entry of `rows`, `over` and `columns` is a name, a list of names, of which the mean is taken,
  or a table of weights. `[names]` has names for lists of names. Without `over` rows stand alone.
* `more_than` states a bound that the contrasts lie above, `at_least` one that equality meets,
  `near` a number, and `smallest` the smallest of all contrasts; a bound is a number, or the fields
  of the published one (`{ metric = "margin" }`). Ours may miss it by `tolerance`, printed numbers
  by `rounding`.
* `least` says how many contrasts have to be met, of all or of `each` "row", "over" or "column".
* `parts = [{...}, {...}]` has several of these in one claim, and what they share beside them; all
  have to be met.
* `ours = true` marks a check that the paper does not state.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.paper_tables.core.claims.contrast import Cell, Contrast, Decision, decide, printed_answer
from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.number_text import plain, signed
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, claim
from repfl.paper_tables.core.statistics.seeds import with_runs

BOUNDS = ("more_than", "at_least", "near", "smallest")
PART = {*BOUNDS, "rows", "over", "columns", "each", "tolerance", "rounding"}
CLAIM = {"id", "artefact", "place", "text", "parts", "least", "ours", "remark", *PART}


@dataclass(frozen=True)
class Sentence:
    """A sentence that is a list of contrasts."""

    id: str
    text: str
    groups: Sequence[Sequence[Contrast]]
    least: int | None = None
    """How many contrasts of each group have to be met; None: all."""
    place: str = ""
    sources: tuple[str, ...] = ()
    remark: str = ""
    ours: bool = False
    """Whether the sentence is this suite's, not the paper's."""


# -- judging ---------------------------------------------------------------------------------------


def runs_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every seed's number in a long table: row, column, seed, value."""
    cells = zip(frame["row"], frame["column"], frame["by_seed"], strict=True)
    lines = [
        (str(row), str(column), run.seed, run.value)
        for row, column, runs in cells
        if with_runs([runs])
        for run in runs
    ]
    return pd.DataFrame(lines, columns=["row", "column", "seed", "value"])


def printed_cells(frame: pd.DataFrame) -> dict[Cell, float]:
    """Return the published numbers of a long table by row and column."""
    cells = zip(frame["row"], frame["column"], frame["printed"], strict=True)
    return {(str(row), str(column)): float(value) for row, column, value in cells}


def judge(
    sentence: Sentence,
    runs: pd.DataFrame,
    scale: str,
    printed: Mapping[Cell, float] | None = None,
    logged: Mapping[Cell, float] | None = None,
) -> Claim:
    """Return the claim that a sentence makes on runs (row, column, seed, value) and on the paper's
    numbers. `logged` are numbers of the authors' logs with other settings, which are only shown.
    """
    groups, least = sentence.groups, sentence.least
    found = decide(groups, least, runs)
    in_print = printed_answer(groups, least, printed or {})
    in_logs = printed_answer(groups, least, logged or {})
    words = {True: "it holds", False: "it does not hold"}
    why = [_in_words(found)]
    why += [f"in the authors' logs {words[in_logs]}"] if in_logs is not None else []
    return claim(
        sentence.id,
        sentence.text,
        found.holds,
        "; ".join([*why, *filter(None, [sentence.remark])]),
        scale,
        place=sentence.place,
        printed=in_print,
        seeds=found.deciding.seeds,
        difference=found.deciding.value,
        interval=(found.deciding.low, found.deciding.high),
        sources=sentence.sources,
        ours=sentence.ours,
    )


def _in_words(found: Decision) -> str:
    """Return the comparisons behind a decision in words."""
    best = found.deciding
    if not found.compared:
        return "ours: not run yet"
    value = signed(best.value)
    if best.low == best.low:
        value += f" [{signed(best.low)}, {signed(best.high)}]"
    seeds = f"{best.seeds} common seed{'s' if best.seeds > 1 else ''}"
    if found.of == 1:
        return f"ours: {value} ({seeds})"
    missing = found.of - found.compared
    return (
        f"ours: {found.met} of {found.compared} comparisons are as stated"
        f"{f' ({missing} more are not run)' if missing else ''};"
        f" the least favourable is {_difference(best.contrast)}{value} ({seeds})"
    )


def _difference(contrast: Contrast | None) -> str:
    """Return the two rows that a contrast compares, and where; empty if it has other cells."""
    cells = [*contrast.weights] if contrast else []
    if not contrast or len(cells) != 2 or cells[0][1] != cells[1][1]:
        return ""
    first, second = sorted(cells, key=lambda cell: -contrast.weights[cell])
    return f"{first[0]} minus {second[0]}, {first[1]}: "


def judge_all(
    evidence: Evidence, folder: Path, artefact: str, frame: pd.DataFrame, *, logged: bool = False
) -> tuple[Claim, ...]:
    """Return the claims of a paper's `claims.toml` on one artefact, whose numbers are in a long
    table; its published side counts as printed, unless `logged=True`.
    """
    cells = printed_cells(frame)
    sides = {"logged": cells} if logged else {"printed": cells}
    runs = runs_of(frame)
    return tuple(
        judge(each, runs, evidence.scale, **sides)
        for each in sentences(folder, artefact, evidence.published)
    )


# -- reading ---------------------------------------------------------------------------------------


@cache
def _file(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def sentences(folder: Path, artefact: str, published: pd.DataFrame) -> Iterator[Sentence]:
    """Yield the sentences of a paper's `claims.toml` on one artefact."""
    path = folder / "claims.toml"
    content = _file(path)
    names = content.get("names", {})
    for entry in content["claim"]:
        if entry.get("artefact") == artefact:
            try:
                yield _sentence(entry, names, published)
            except (KeyError, TypeError, PaperError) as error:
                raise PaperError(f"{path}: claim {entry.get('id')!r}: {error}") from error


def _sentence(
    entry: Mapping[str, Any], names: Mapping[str, Any], published: pd.DataFrame
) -> Sentence:
    if unknown := set(entry) - CLAIM:
        raise PaperError(f"unknown {', '.join(sorted(unknown))}; valid: {', '.join(sorted(CLAIM))}")
    groups: list[list[Contrast]] = []
    sources: list[str] = []
    shared = {name: value for name, value in entry.items() if name in PART}
    for part in ({**shared, **each} for each in entry.get("parts", [{}])):
        kind = next((name for name in BOUNDS if name in part), "more_than")
        bound, found = _bound(part.get(kind, 0.0), published)
        sources += found
        groups += _groups(part, kind, bound, names)
    least = entry.get("least", 1 if "smallest" in entry else None)
    return Sentence(
        entry["id"],
        entry["text"],
        groups,
        least,
        entry["place"],
        tuple(sources),
        entry.get("remark", ""),
        entry.get("ours", False),
    )


def _bound(value: Any, published: pd.DataFrame) -> tuple[float, list[str]]:
    """Return a bound, and the sources of the published number that it is."""
    if not isinstance(value, Mapping):
        return float(value), []
    rows = select(published, **value)
    return stated(rows), list(rows["source"])


def _groups(
    part: Mapping[str, Any], kind: str, bound: float, names: Mapping[str, Any]
) -> list[list[Contrast]]:
    """Return the contrasts of every row, rival and column, in a group for `each` of some."""
    axes = {
        "row": _weights(part["rows"], names),
        "over": _weights(part.get("over", [{}]), names),
        "column": _weights(part["columns"], names),
    }
    each = [part["each"]] if isinstance(part.get("each"), str) else part.get("each", [])
    groups: dict[tuple[int, ...], list[Contrast]] = {}
    indices = [range(len(axis)) for axis in axes.values()]
    for places in product(*indices):
        row, over, column = (axis[i] for axis, i in zip(axes.values(), places, strict=True))
        if row == over:
            continue
        rows = _sum(row, over, -1.0)
        weights = {(r, c): v * w for r, v in rows.items() for c, w in column.items()}
        key = tuple(places[list(axes).index(axis)] for axis in each)
        tolerance, rounding = part.get("tolerance", 0.0), part.get("rounding", 0.0)
        near, ties = kind == "near", kind in ("at_least", "smallest")
        one = Contrast(weights, bound, near, tolerance, rounding, ties)
        if kind == "smallest":  # each alone is at least as large, and below some is no larger
            groups[places] = [one]
        else:
            groups.setdefault(key, []).append(one)
    result = list(groups.values())
    if kind == "smallest":
        result.append([_negative(one) for (one,) in groups.values()])
    return result


def _negative(one: Contrast) -> Contrast:
    weights = {cell: -weight for cell, weight in one.weights.items()}
    return Contrast(weights, -one.bound, one.near, one.tolerance, one.rounding, one.ties)


def _sum(
    first: Mapping[str, float], second: Mapping[str, float], factor: float
) -> dict[str, float]:
    keys = dict.fromkeys([*first, *second])
    return {key: first.get(key, 0.0) + factor * second.get(key, 0.0) for key in keys}


def _weights(entries: Any, names: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the weights of every entry: a name, a list of which the mean is taken, or a table."""
    entries = [entries] if isinstance(entries, str) else entries
    result = []
    for entry in entries:
        if isinstance(entry, str):
            result += [{name: 1.0} for name in names.get(entry, [entry])]
        elif isinstance(entry, Mapping):
            result.append({name: float(weight) for name, weight in entry.items()})
        else:
            members = [name for each in entry for name in names.get(each, [each])]
            result.append({name: 1 / len(members) for name in members})
    return result


# -- statements on equations -----------------------------------------------------------------------


def close(value: float) -> bool | None:
    """Return whether a cosine, a rank correlation or a ratio is near one: True from 0.9 on, False
    below 0.5, None between.
    """
    return True if value >= 0.9 else False if value < 0.5 else None


@dataclass(frozen=True)
class Proposition:
    """A statement on an equation, checked on the rows of `propositions.csv` whose quantity begins
    with `quantity`.
    """

    id: str
    text: str
    place: str
    quantity: str
    met: Callable[[float], bool | None] = close
    on: str = "a toy with digits"


def judge_propositions(
    numbers: pd.DataFrame, scale: str, statements: Iterable[Proposition]
) -> tuple[Claim, ...]:
    """Return claims on a paper's statements on equations. They are checked on toy data of this
    suite, so the scale of runs does not matter. Seeds count by their mean.
    """
    claims = []
    for each in statements:
        matching = numbers[numbers["quantity"].str.startswith(each.quantity)]
        means = matching.groupby(["quantity", "round"], as_index=False)["value"].mean()
        values = {
            f"{quantity.removeprefix(each.quantity).lstrip(', ')} round {round_}".strip(): value
            for quantity, round_, value in means.itertuples(index=False)
        }
        seeds = matching["seed"].nunique()
        what = f"{each.quantity} ({f'means of {seeds} seeds' if seeds > 1 else '1 seed'})"
        claims.append(
            claim(
                each.id,
                f"On {each.on}: {each.text}",
                all_met(values, each.met),
                f"{what}: {in_words(values)}",
                scale,
                place=each.place,
                seeds=seeds,
                exact=True,
                ours=True,
            )
        )
    return tuple(claims)


def all_met(
    numbers: Mapping[str, float], met: Callable[[float], bool | None], share: float = 1.0
) -> bool | None:
    """Return whether at least a share of some numbers meet a condition; None if that is open. NaN
    is a missing number.
    """
    answers = [met(value) if value == value else None for value in numbers.values()]
    needed = share * len(answers)
    if answers and answers.count(True) >= needed:
        return True
    return False if len(answers) - answers.count(False) < needed else None


def in_words(numbers: Mapping[str, float], write: Callable[[float], str] = plain) -> str:
    """Return some numbers with their names."""
    texts = ((k, write(v) if v == v else "not known") for k, v in numbers.items())
    return ", ".join(f"{name} {value}".strip() for name, value in texts) or "not run"


def wide(frame: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return one side of a long table, `printed` or `ours`, rows against columns."""
    return frame.pivot(index="row", columns="column", values=side).astype(float)
