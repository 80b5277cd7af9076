"""The numbers that the papers print: one csv per table, checked line by line."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import isfinite, nan
from pathlib import Path
from typing import Any

import pandas as pd

FIELDS = ("paper", "table", "dataset", "setting", "method", "metric", "mean", "std", "unit", "note")
KEY = ("table", "dataset", "setting", "method", "metric")
LIMITS = {
    "%": (0.0, 100.0),
    "percent": (0.0, 100.0),
    "fraction": (0.0, 1.0),
    "count": (0.0, float("inf")),
}
RANGE = re.compile(r"^-?\d+(\.\d+)?(-|x)\d+(\.\d+)?$")
WORDS = frozenset({"N_total"})
LOGS = "author logs"
"""Tables print a number once; authors' logs contain some runs twice."""


@dataclass(frozen=True)
class Published:
    """All published numbers of a folder: the valid rows, and one line per bad one."""

    frame: pd.DataFrame
    """The columns of the files, the number as `value` (NaN where a cell is no single number),
    `file`, `line` and `source`.
    """
    problems: tuple[str, ...]

    @property
    def by_source(self) -> dict[str, dict[Any, Any]]:
        """The rows by file and line."""
        return {str(row["source"]): row for row in self.frame.to_dict("records")}


def read_published(folder: Path) -> Published:
    """Read every csv of a folder. A bad row is left out and reported, so that everything else can
    still be shown.
    """
    rows: list[dict[str, object]] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.csv")):
        _read_file(path, rows, problems)
    frame = pd.DataFrame(rows, columns=[*FIELDS, "value", "file", "line", "source"])
    # tables look up many single rows, and objects are fastest at that
    kinds = dict.fromkeys(frame, object) | {"value": float, "std": float, "line": int}
    return Published(frame.astype(kinds), tuple(problems))


@cache
def drawn_lines(folder: Path) -> Mapping[tuple[str, str, str], pd.Series]:
    """Return the lines that were read from a paper's figures, `figure_curves.csv.gz`: accuracy, by
    figure, data set and name.
    """
    *keys, x, accuracy = (frame := pd.read_csv(folder / "figure_curves.csv.gz")).columns[:5]
    lines = frame.set_index(x).groupby(keys)[accuracy]
    empty = pd.Series(dtype=float, index=pd.Index([], dtype=int))
    named = {(str(figure), str(data), str(name)): line for (figure, data, name), line in lines}
    return defaultdict(lambda: empty, named)


def select(published: pd.DataFrame, **fields: str) -> pd.DataFrame:
    """Return the rows with these fields; `table="text"` selects all sections of the text."""
    mask = pd.Series(True, index=published.index)
    for name, value in fields.items():
        mask &= (
            published[name].str.startswith("text")
            if (name, value) == ("table", "text")
            else published[name] == value
        )
    return published[mask]


def stated(rows: pd.DataFrame) -> float:
    """Return the first number of some rows; a missing row is an error of this suite."""
    if rows.empty:
        raise LookupError("a claim rests on a published number that is in no csv")
    return float(rows["value"].iloc[0])


def _read_file(path: Path, rows: list[dict[str, object]], problems: list[str]) -> None:
    first_lines: dict[tuple[str, ...], int] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval=None, strict=True)
            if tuple(names := reader.fieldnames or ()) != FIELDS:
                columns = ", ".join(names) or "absent"
                problems.append(f"{path}:1: columns are {columns}; expected {', '.join(FIELDS)}")
                return
            for row in reader:
                line, problem = reader.line_num, _problem(row)
                key = tuple(str(row[name]) for name in KEY)
                if not problem and key in first_lines and not key[0].startswith(LOGS):
                    problem = f"repeats line {first_lines[key]} ({', '.join(filter(None, key))})"
                if problem:
                    problems.append(f"{path}:{line}: {problem}")
                    continue
                first_lines[key] = line
                numbers = {"value": _number(row["mean"]), "std": _number(row["std"])}
                location = {"file": path.name, "line": line, "source": f"{path.name}:{line}"}
                rows.append({**row, **numbers, **location})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problems.append(f"{path}: cannot be read: {error}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def _problem(row: dict[Any, Any]) -> str:
    """Return what is wrong with a row; empty if nothing is."""
    if None in row or None in row.values():
        return f"has more or fewer than {len(FIELDS)} fields"
    for name in ("paper", "table", "metric"):
        if not row[name].strip():
            return f"field {name!r} is empty"
    mean, std, value = row["mean"], row["std"], _number(row["mean"])
    if not mean and not row["note"]:
        return "field 'mean' is empty and no note says why"
    if mean and not isfinite(value) and not RANGE.match(mean) and mean not in WORDS:
        return f"mean {mean!r} is neither a number nor a range"
    if std and not (isfinite(_number(std)) and _number(std) >= 0):
        return f"std {std!r} is not a number from 0"
    low, high = LIMITS.get(row["unit"], (-float("inf"), float("inf")))
    if isfinite(value) and not low <= value <= high:
        return f"mean {mean} lies outside [{low:g}, {high:g}] for unit {row['unit']!r}"
    return ""
