"""Evidence that can be changed, to find a change under which a claim holds and one under which it
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import pandas as pd

from repfl.paper_tables.core.claims.sentences import judge_propositions
from repfl.paper_tables.core.result import Claim, Figure, Result, Table


class Doctored:
    """Evidence that can be changed, and leaves what it was made of as it is."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.published, self.cells = inner.published.copy(), inner.cells.copy()
        self.curve: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        return self.curve(self.inner.rounds(ids, *names))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def set(self, field: str, value: Any) -> None:
        """Give all cells a field."""
        self.cells[field] = [value] * len(self.cells)

    def move(self, field: str, by: float) -> None:
        """Move a field of all cells."""
        self.cells[field] = self.cells[field] + by

    def state(self, change: Callable[[pd.Series], Any], **where: str) -> None:
        """Change the values of some published numbers."""
        kept = (self.published[list(where)] == pd.Series(where)).all(axis=1)
        assert kept.any()
        self.published.loc[kept, "value"] = change(self.published.loc[kept, "value"])

    def work(self, own: str, factor: float) -> None:
        """Give all runs the same operations, and those of one row so many times as many."""
        times = self.cells["row"].eq(own).map({True: factor, False: 1.0})
        self.cells["work.multiply_adds"] = 1e9 * times
        self.set("work.clients", 10)
        self.set("work.rounds", 10)

    def note(self, **notes: float) -> None:
        """Give the notes of all runs a value."""
        self.cells["metrics"] = [
            {**each, "notes": {**each.get("notes", {}), **notes}} for each in self.cells["metrics"]
        ]

    def shake(self, row: str, own: float) -> None:
        """Let all curves go up and down, by two points, those of a row by another number."""
        mine = set(self.cells.loc[self.cells["row"] == row, "id"])

        def shaken(f: pd.DataFrame) -> pd.DataFrame:
            size = f["id"].isin(mine).map({True: own, False: 2.0}) / 100
            return f.assign(value=0.5 + size * (f.groupby(["id", "name"]).cumcount() % 2))

        self.curve = shaken


Change = Callable[[Doctored], Any]
"""What it returns is handed to the judge."""
Judge = Callable[[Doctored, Result, Any], Sequence[Claim]]
"""From changed evidence, the unchanged artefact and what the change returned, to claims."""


class Case(NamedTuple):
    """Claims of one artefact that hold under one change and fail under another."""

    artefact: str
    ids: tuple[str, ...]
    judge: Judge
    holds: Change
    fails: Change


def as_it_is(evidence: Doctored) -> None:
    """No change."""


def rendered_anew(evidence: Doctored, result: Result, extra: Any) -> Sequence[Claim]:
    """The artefact from the changed evidence."""
    paper = import_module(f"repfl.paper_tables.{result.paper.replace('-', '_')}.artefacts")
    found: Result = paper.ARTEFACTS[result.name](evidence)
    return found.claims


def told(make: Callable[[Doctored], Claim]) -> Judge:
    """One claim from the changed evidence."""
    return lambda evidence, result, extra: (make(evidence),)


def told_beside(make: Callable[[Doctored, pd.DataFrame], Sequence[Claim]]) -> Judge:
    """Claims from the changed evidence and the unchanged numbers."""
    return lambda evidence, result, extra: make(evidence, frame(result))


def working(name: str, artefact: str, own: str) -> Case:
    """A claim that a row takes about as many operations as another."""
    alike, more = (lambda e, times=times: e.work(own, times) for times in (1.0, 9.0))
    return Case(artefact, (name,), rendered_anew, alike, more)


def propositions(artefact: str, module: Any) -> Case:
    """Statements on equations hold where every number is 1.1, and fail where it is 0.2."""

    def judge(evidence: Doctored, result: Result, value: float) -> Sequence[Claim]:
        numbers = pd.read_csv(module.FOLDER / "propositions.csv").assign(value=value)
        return judge_propositions(module.FOLDER, "paper", module.PROPOSITIONS, numbers)

    names = tuple(each.name for each in module.PROPOSITIONS)
    return Case(artefact, names, judge, giving(1.1), giving(0.2))


def giving(value: Any) -> Change:
    """No change of the evidence, and a value for the judge."""
    return lambda evidence: value


def frame(result: Result) -> pd.DataFrame:
    """The numbers of a table or a figure."""
    if isinstance(result, Table):
        return result.frame
    assert isinstance(result, Figure)
    return result.data
