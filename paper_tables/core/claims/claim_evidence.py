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

from repfl.paper_tables.core.claims.conditions import Condition, Form, Place
from repfl.paper_tables.core.statistics.intervals import FEWEST, LEVEL
from repfl.paper_tables.core.statistics.seeds import OfSeed, of_runs


@cache
def _quantile(level: float, df: float) -> float:
    """Half of a t interval, in standard errors."""
    return float(special.stdtrit(df, (1 + level) / 2))


@dataclass(frozen=True)
class Estimate:
    """A number, and what is known of its noise: the variance of the number, and degrees of
    freedom.
    """

    value: float
    variance: float = 0.0
    df: float = inf
    paired: str = ""
    """What its cells are paired by: seed, client, or nothing."""

    def half(self, level: float = LEVEL) -> float:
        """Half of its interval; zero in print, NaN if the noise is not known."""
        if self.variance == 0:
            return 0.0
        return _quantile(level, self.df) * sqrt(self.variance)

    def told(self, sign: str = "+") -> str:
        """With its interval, which print has none of."""
        half, form = self.half(), f"{{:{sign}.2f}}"
        if not half:
            return form.format(self.value)
        if not isfinite(half):
            return f"{form.format(self.value)} (too few runs for an interval)"
        low, high = (form.format(self.value + side) for side in (-half, half))
        return f"{form.format(self.value)} [{low}, {high}]"


@dataclass(frozen=True)
class Side:
    """One side of a long table, `published` or `ours`."""

    frame: pd.DataFrame
    name: str
    _known: dict[Form, Estimate | None] = field(default_factory=dict)

    @cached_property
    def _cells(self) -> dict[Place, dict[str, float]]:
        fields = ["published", "ours", "low", "high", "df", "seeds"]
        kept = self.frame.reindex(columns=["row", "column", *fields])
        return {
            (str(row["row"]), str(row["column"])): {f: float(row[f]) for f in fields}
            for row in kept.to_dict("records")
        }

    @cached_property
    def _runs(self) -> dict[Place, dict[int, OfSeed]]:
        """By seed, what ours came to where they are means over seeds."""
        if self.name != "ours" or "by_seed" not in self.frame:
            return {}
        places = zip(self.frame["row"].astype(str), self.frame["column"].astype(str), strict=True)
        found = zip(places, self.frame["by_seed"], strict=True)
        return {place: {run.seed: run for run in runs} for place, runs in found if of_runs([runs])}

    def _common(self, form: Form) -> list[int]:
        """The seeds that all cells have that are means over seeds."""
        sets = [set(self._runs[place]) for place in form.factors if place in self._runs]
        return sorted(set.intersection(*sets)) if sets else []

    def _at(self, place: Place) -> dict[str, float]:
        if place not in self._cells:
            rows, columns = ({p[axis] for p in self._cells} for axis in (0, 1))
            if place[0] not in rows or place[1] not in columns:
                what, known = ("row", rows) if place[0] not in rows else ("column", columns)
                wrong = place[0] if what == "row" else place[1]
                raise LookupError(f"a claim names the {what} {wrong!r}; there are {sorted(known)}")
            return {}
        return self._cells[place]

    def of(self, form: Form) -> Estimate | None:
        """Return what a sum of cells comes to, over their common seeds; None if a number or a
        common seed is missing.
        """
        if form not in self._known:
            self._known[form] = self._sum(form)
        return self._known[form]

    def _sum(self, form: Form) -> Estimate | None:
        places = form.factors
        numbers = {place: self._at(place).get(self.name, nan) for place in places}
        if not all(map(isfinite, [form.constant, *numbers.values()])):
            return None
        common, seeded = self._common(form), [place for place in places if place in self._runs]
        if seeded and not common:
            return None
        for place in seeded:
            numbers[place] = sum(self._runs[place][s].value for s in common) / len(common)
        value = form.constant + sum(f * numbers[place] for place, f in places.items())
        if self.name != "ours" or not places:
            return Estimate(value)
        if len(places) > 1 and len(seeded) == len(places):
            if len(common) >= FEWEST:
                each = [sum(f * self._runs[p][s].value for p, f in places.items()) for s in common]
                return Estimate(
                    value, float(np.var(each, ddof=1)) / len(each), len(each) - 1, "seed"
                )
            if (found := self._over_clients(form, common)) is not None:
                return Estimate(value, *found, "client")
        variance, df = 0.0, inf
        for place, factor in places.items():
            cell, runs = self._at(place), self._runs.get(place)
            error = (cell["high"] - cell["low"]) / 2 / _quantile(LEVEL, cell["df"])
            error *= sqrt(len(runs) / len(common)) if runs else 1.0
            variance, df = variance + (factor * error) ** 2, min(df, cell["df"])
        return Estimate(value, variance, df)

    def _over_clients(self, form: Form, common: Sequence[int]) -> tuple[float, float] | None:
        """Return the variance of differences within columns, over the clients of each seed, and
        its degrees of freedom; None if rows of a column do not share their clients.
        """
        variance, df = 0.0, inf
        for column in {place[1] for place in form.factors}:
            here = {p: f for p, f in form.factors.items() if p[1] == column and f}
            if abs(sum(here.values())) > 1e-9:
                return None
            for seed in common if here else ():
                runs = [self._runs[place][seed].by_client() for place in here]
                weight = runs[0][1]
                if len(weight) < FEWEST or any(not np.array_equal(w, weight) for _, w in runs):
                    return None
                gaps = sum(f * acc for f, (acc, _) in zip(here.values(), runs, strict=True))
                rest = weight * (gaps - weight @ gaps)
                n = len(weight)
                variance += float(rest @ rest) * n / (n - 1) / len(common) ** 2
                df = min(df, len(common) * (n - 1))
        return variance, df

    def answer(self, condition: Condition, level: float) -> bool | None:
        """Whether a condition holds; none where that is open."""
        if condition.parts:
            answers = [self.answer(part, level) for part in condition.parts]
            return join(answers, condition.least)
        found = self.of(condition.difference)
        if found is None:
            return None
        value = round(found.value, 9) + (
            condition.margin if self.name == "ours" else condition.slack
        )
        half = found.half(level) if level else 0.0
        if value == half == 0:
            return None if condition.strict else True
        if value - half > 0:
            return True
        return False if value + half < 0 or (not half and value <= 0) else None

    def seeds(self, condition: Condition) -> str:
        """How many runs stand behind the numbers: of every difference, its common seeds."""
        known = [x.difference for x in condition.leaves() if self.of(x.difference) is not None]
        counts = sorted({n for form in known for n in self._counts(form)})
        if not counts:
            return "no run"
        told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        common = "common " if self._runs and any(len(form.factors) > 1 for form in known) else ""
        paired = {self.of(form).paired for form in known}  # type: ignore[union-attr]
        by = ", paired by client" if "client" in paired else ", paired" if "seed" in paired else ""
        return f"{told} {common}{'seed' if counts == [1] else 'seeds'}{by}"

    def _counts(self, form: Form) -> set[int]:
        if common := self._common(form):
            return {len(common)}
        return {int(n) for p in form.factors if (n := self._at(p).get("seeds", 0)) > 0}


def join(answers: Sequence[bool | None], least: int) -> bool | None:
    """Return whether at least a number of answers are yes; None while that is open."""
    if answers.count(True) >= least:
        return True
    return False if len(answers) - answers.count(False) < least else None


def level_of(condition: Condition) -> float:
    """The level of each difference at which all of them together have 95 % (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, sum(1 for _ in condition.leaves()))
