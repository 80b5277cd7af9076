"""What one side of a table, printed or ours, says of a condition.

Print has no noise. Of ours a difference counts as there when its interval leaves out zero, as
absent when the interval lies on the other side, and is open else, also where a number is missing;
conditions join such answers (Kleene's logic), so that one clear exception refutes "always", and
missing numbers refute nothing. Cells are compared over the seeds that all of them have, since each
seed may deal other clients: differences are paired by seed from three common seeds on, and by
client within fewer. Cells without anything in common but their column, and numbers by themselves,
have the intervals of their table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf, isfinite, nan, sqrt

import numpy as np
import pandas as pd
from scipy import special

from repfl.paper_tables.core.claims.conditions import CellKey, Condition, Form
from repfl.paper_tables.core.statistics.intervals import LEVEL, MIN_RUNS
from repfl.paper_tables.core.statistics.seeds import SeedResult, with_runs


@cache
def _quantile(level: float, df: float) -> float:
    """Return half of a t interval, in standard errors."""
    return float(special.stdtrit(df, (1 + level) / 2))


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty: the variance of the number, and degrees of freedom."""

    value: float
    variance: float = 0.0
    df: float = inf
    paired: str = ""
    """What its cells are paired by: seed, client, or nothing."""

    def half_width(self, level: float = LEVEL) -> float:
        """Return half of the interval; zero for a paper's number, NaN if the noise is unknown."""
        if self.variance == 0:
            return 0.0
        return _quantile(level, self.df) * sqrt(self.variance)

    def format(self, sign: str = "+") -> str:
        """Return the number in words, with its interval if it has one."""
        half, pattern = self.half_width(), f"{{:{sign}.2f}}"
        if not half:
            return pattern.format(self.value)
        if not isfinite(half):
            return f"{pattern.format(self.value)} (too few runs for an interval)"
        low, high = (pattern.format(self.value + offset) for offset in (-half, half))
        return f"{pattern.format(self.value)} [{low}, {high}]"


@dataclass(frozen=True)
class Side:
    """One side of a long table, `published` or `ours`."""

    frame: pd.DataFrame
    name: str
    _estimates: dict[Form, Estimate | None] = field(default_factory=dict)

    @cached_property
    def _cells(self) -> dict[CellKey, dict[str, float]]:
        fields = ["published", "ours", "low", "high", "df", "seeds"]
        frame = self.frame.reindex(columns=["row", "column", *fields])
        return {
            (str(row["row"]), str(row["column"])): {name: float(row[name]) for name in fields}
            for row in frame.to_dict("records")
        }

    @cached_property
    def _runs(self) -> dict[CellKey, dict[int, SeedResult]]:
        """The runs of each cell that is a mean over seeds, by seed; empty for the paper's side."""
        if self.name != "ours" or "by_seed" not in self.frame:
            return {}
        keys = zip(self.frame["row"].astype(str), self.frame["column"].astype(str), strict=True)
        by_cell = zip(keys, self.frame["by_seed"], strict=True)
        return {key: {run.seed: run for run in runs} for key, runs in by_cell if with_runs([runs])}

    def common_seeds(self, form: Form) -> list[int]:
        """Return the seeds that all cells have that are means over seeds."""
        sets = [set(self._runs[key]) for key in form.factors if key in self._runs]
        return sorted(set.intersection(*sets)) if sets else []

    def _cell(self, key: CellKey) -> dict[str, float]:
        if key not in self._cells:
            rows, columns = ({each[axis] for each in self._cells} for axis in (0, 1))
            if key[0] not in rows or key[1] not in columns:
                axis, names = ("row", rows) if key[0] not in rows else ("column", columns)
                name = key[0] if axis == "row" else key[1]
                raise LookupError(f"a claim names the {axis} {name!r}; there are {sorted(names)}")
            return {}
        return self._cells[key]

    def estimate(self, form: Form) -> Estimate | None:
        """Return the value of a sum of cells over their common seeds; None if a number or a common
        seed is missing.
        """
        if form not in self._estimates:
            self._estimates[form] = self._estimate(form)
        return self._estimates[form]

    def _estimate(self, form: Form) -> Estimate | None:
        factors = form.factors
        numbers = {key: self._cell(key).get(self.name, nan) for key in factors}
        if not all(map(isfinite, [form.constant, *numbers.values()])):
            return None
        common, seeded = self.common_seeds(form), [key for key in factors if key in self._runs]
        if seeded and not common:
            return None
        for key in seeded:
            numbers[key] = sum(self._runs[key][seed].value for seed in common) / len(common)
        value = form.constant + sum(factor * numbers[key] for key, factor in factors.items())
        if self.name != "ours" or not factors:
            return Estimate(value)
        if len(factors) > 1 and len(seeded) == len(factors):
            if len(common) >= MIN_RUNS:
                sums = [sum(f * self._runs[k][s].value for k, f in factors.items()) for s in common]
                return Estimate(
                    value, float(np.var(sums, ddof=1)) / len(sums), len(sums) - 1, "seed"
                )
            if (by_client := self._paired_by_client(form, common)) is not None:
                return Estimate(value, *by_client, "client")
        variance, df = 0.0, inf
        for key, factor in factors.items():
            cell, runs = self._cell(key), self._runs.get(key)
            error = (cell["high"] - cell["low"]) / 2 / _quantile(LEVEL, cell["df"])
            error *= sqrt(len(runs) / len(common)) if runs else 1.0
            variance, df = variance + (factor * error) ** 2, min(df, cell["df"])
        return Estimate(value, variance, df)

    def _paired_by_client(self, form: Form, common: Sequence[int]) -> tuple[float, float] | None:
        """Return the variance of differences within columns, over the clients of each seed, and
        its degrees of freedom; None if rows of a column do not share their clients.
        """
        variance, df = 0.0, inf
        for column in {key[1] for key in form.factors}:
            factors = {k: f for k, f in form.factors.items() if k[1] == column and f}
            if abs(sum(factors.values())) > 1e-9:
                return None
            for seed in common if factors else ():
                runs = [self._runs[key][seed].by_client() for key in factors]
                weight = runs[0][1]
                if len(weight) < MIN_RUNS or any(not np.array_equal(w, weight) for _, w in runs):
                    return None
                gaps = sum(f * acc for f, (acc, _) in zip(factors.values(), runs, strict=True))
                rest = weight * (gaps - weight @ gaps)
                clients = len(weight)
                variance += float(rest @ rest) * clients / (clients - 1) / len(common) ** 2
                df = min(df, len(common) * (clients - 1))
        return variance, df

    def answer(self, condition: Condition, level: float) -> bool | None:
        """Return whether a condition holds; None if that is open."""
        if condition.parts:
            answers = [self.answer(part, level) for part in condition.parts]
            return at_least_true(answers, condition.least)
        estimate = self.estimate(condition.difference)
        if estimate is None:
            return None
        value = round(estimate.value, 9) + (
            condition.margin if self.name == "ours" else condition.slack
        )
        half = estimate.half_width(level) if level else 0.0
        if value == half == 0:
            return None if condition.strict else True
        if value - half > 0:
            return True
        return False if value + half < 0 or (not half and value <= 0) else None

    def describe_seeds(self, condition: Condition) -> str:
        """Return in words how many common seeds the differences are over."""
        forms = [leaf.difference for leaf in condition.leaves()]
        forms = [form for form in forms if self.estimate(form) is not None]
        counts = sorted({count for form in forms for count in self._seed_counts(form)})
        if not counts:
            return "no run"
        number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        common = "common " if self._runs and any(len(form.factors) > 1 for form in forms) else ""
        pairings = {self.estimate(form).paired for form in forms}  # type: ignore[union-attr]
        by = ", paired by client" if "client" in pairings else ""
        by = by or (", paired" if "seed" in pairings else "")
        return f"{number} {common}{'seed' if counts == [1] else 'seeds'}{by}"

    def _seed_counts(self, form: Form) -> set[int]:
        if common := self.common_seeds(form):
            return {len(common)}
        counts = (self._cell(key).get("seeds", 0) for key in form.factors)
        return {int(count) for count in counts if count > 0}


def at_least_true(answers: Sequence[bool | None], least: int) -> bool | None:
    """Return whether at least `least` answers are True; None while that is open."""
    if answers.count(True) >= least:
        return True
    return False if len(answers) - answers.count(False) < least else None


def level_per_difference(condition: Condition) -> float:
    """Return the level of each difference at which all of them together have 95 % (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, sum(1 for _ in condition.leaves()))
