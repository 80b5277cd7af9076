"""Fit how fast operations are to the times of the measured values, and count the grids' models:

    python -m repfl.bench.evidence.pace

writes `operations.csv` and `pace.json` in `bench/running`. Times of one platform are used, that of
most values. Early ones are of a wall clock on machines that did other things too, so the fit is one
that a tail of long times hardly moves. How far off it is comes from cells left out, and from the
processor times of other platforms.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from scipy import optimize

from repfl.bench.cells import grid as grids
from repfl.bench.cells.cell import Cell
from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import Selection, unique
from repfl.bench.evidence import measured
from repfl.bench.evidence.lines import Line
from repfl.bench.running import operations, pace
from repfl.bench.running.cost import REACH, START, how_of
from repfl.bench.running.operations import TERMS, Load, Work
from repfl.bench.running.pace import Pace, Share

PRIOR = {"calls": 3.8e-5, "products": 7.6e-12, "elements": 1.6e-9, "parameters": 5.4e-9}
"""Seconds per operation, from single training steps of all models on a core of a server: what the
fit stays near where measured values do not tell terms apart.
"""
NEAR, FAR = 0.3, 2.0
"""How far the fit may go from these, as logarithms, and from what is guessed of other terms."""
GUESSED = {"scored": 3e-9, "moved": 3e-9, "visits": 5e-4}
DEVIATION = 0.15
"""What the logarithm of an undisturbed time is off by, about."""
SHARE = 0.1
"""Scoring tells of its pace from this share of a cell's time on."""
FOLDS = 8
FACTOR = 1.3
"""An estimate that is off by less is called a good one."""
TELLING = 20
"""So many cells tell what estimates are worth."""
COMMON = "fedavg"
"""The method that shares are multiples of."""


@dataclass(frozen=True)
class Timed:
    """A measured value with what its cell computes and how long it took."""

    cell: Cell
    scale: str
    work: Work
    seconds: float
    scoring: float
    """Of these, seconds of scoring outside rounds."""
    device: str
    by_processor: bool
    """Whether other programs hardly moved them."""


def times() -> list[list[Timed]]:
    """The values of every platform, first those of the one that most are from."""
    cells = {
        item.cell.id: item.cell
        for scale in grids.SCALES
        for item in unique(plan(Selection(scale=scale)))
    }
    found: dict[str, dict[str, Timed]] = {}
    for line, scale in _lines():
        if (known := cells.get(line.cell)) is not None:
            told = line.record.provenance
            done = operations.work(known.method, known.hp, known.recipe, **how_of(line.record))
            spent = told["seconds"]
            seconds = spent.get("processor", spent["train"] + spent["evaluate"])
            device, counted = told["platform"]["device"], "processor" in spent
            timed = Timed(known, scale, done, seconds, spent["evaluate"], device, counted)
            found.setdefault(line.platform, {}).setdefault(line.cell, timed)
    return sorted((list(each.values()) for each in found.values()), key=len, reverse=True)


def _lines() -> Iterator[tuple[Line, str]]:
    for paper in grids.files():
        for scale in grids.SCALES:
            for line in measured.read(paper, scale).lines:
                if line.record.status == "done" and line.record.provenance["device"] == "cpu":
                    yield line, scale


class Fit:
    """Seconds per operation and shares of methods, as one vector of logarithms."""

    def __init__(self, timed: list[Timed]) -> None:
        self.timed = timed
        self.methods = sorted({each.cell.method for each in timed})
        self.of = np.array([self.methods.index(each.cell.method) for each in timed])
        self.steps, self.around, self.scoring = (
            np.array([astuple(getattr(each.work, name)) for each in timed])
            for name in ("steps", "around", "scoring")
        )
        self.logs = np.log([each.seconds for each in timed])
        self.prior = np.log([(PRIOR | GUESSED)[term] for term in TERMS])
        scored = np.array([each.scoring for each in timed])
        self.told = scored > SHARE * np.exp(self.logs)
        self.scores = np.log(np.where(self.told, scored, 1.0))

    def expected(self, logs: np.ndarray) -> np.ndarray:
        """Logarithms of seconds."""
        terms, shares = np.exp(logs[: len(TERMS)]), self.shares(logs)[self.of]
        around = self.around * terms
        moved, visits = (around[:, TERMS.index(name)] for name in ("moved", "visits"))
        steps = (self.steps @ terms) * shares[:, 0]
        rest = moved * shares[:, 1] + visits * shares[:, 2]
        return np.asarray(np.log(steps + rest + self.scoring @ terms))

    def shares(self, logs: np.ndarray) -> np.ndarray:
        """Per method the shares of steps, moves and visits."""
        return np.exp(logs[len(TERMS) :]).reshape(3, -1).T

    def solve(self, among: np.ndarray) -> np.ndarray:
        """From a start that all values pull at to an end that strays pull at little."""
        common, count = self.methods.index(COMMON), len(self.methods)

        def off(logs: np.ndarray) -> np.ndarray:
            shares = logs[len(TERMS) :]
            steps, others = shares[:count], shares[count:]
            errors = (self.logs - self.expected(logs))[among] / DEVIATION
            tested = self.scores - np.log(self.scoring @ np.exp(logs[: len(TERMS)]))
            scores = tested[among & self.told] / (2 * DEVIATION)
            ties = [10 * shares[common]]
            return np.concatenate([errors, scores, steps / 0.7, others / 2, ties])

        found = np.concatenate([self.prior, np.zeros(3 * count)])
        reach = [NEAR if term in PRIOR else FAR for term in TERMS]
        width = np.concatenate([reach, np.full(3 * count, 6.0)])
        within = found - width, found + width
        for loss in ("soft_l1", "cauchy"):
            found = optimize.least_squares(off, found, loss=loss, bounds=within, max_nfev=60).x
        return found

    def left_out(self) -> np.ndarray:
        """Logarithms of time over estimate, each by a fit to other cells."""
        fold = np.arange(len(self.logs)) % FOLDS
        errors = np.zeros(len(self.logs))
        for each in range(FOLDS):
            errors[fold == each] = (self.logs - self.expected(self.solve(fold != each)))[
                fold == each
            ]
        return errors


def fitted() -> dict[str, Any]:
    """What `pace.json` holds."""
    first, *others = times()
    timed = sorted(first, key=lambda each: each.cell.id)
    fit = Fit(timed)
    logs, errors = fit.solve(np.ones(len(timed), dtype=bool)), fit.left_out()
    shares = {
        method: {name: _round(value) for name, value in zip(_SHARES, row, strict=True)}
        for method, row in zip(fit.methods, fit.shares(logs), strict=True)
    }
    terms = {
        term: _round(value) for term, value in zip(TERMS, np.exp(logs[: len(TERMS)]), strict=True)
    }
    made = Pace(Load(**terms), {name: Share(**share) for name, share in shares.items()}, {})
    unseen = [(timed, errors), *((each, _off(each, made)) for each in others)]
    small = np.array([each.scale == "smoke" for each in timed])
    return {
        "values": dict(Counter(each.scale for each in timed)),
        "unseen": [row for group, off in unseen for row in _unseen(group, off)],
        "errors": _errors(fit, logs, errors, small) | OTHERS,
        "terms": terms,
        "methods": shares,
    }


def _off(timed: list[Timed], known: Pace) -> np.ndarray:
    """Logarithms of time over estimate."""
    estimates = [START + known.seconds(each.work, each.cell.method) for each in timed]
    return np.log([each.seconds for each in timed]) - np.log(estimates)


def _unseen(timed: list[Timed], errors: np.ndarray) -> Iterator[dict[str, Any]]:
    """What estimates are worth on a machine, by cells that the fit has not seen and whose seconds
    are of its processor: with the reference's pace, and with one factor for the machine.
    """
    for small in (True, False):
        chosen = [each.by_processor and (each.scale == "smoke") is small for each in timed]
        here = errors[np.array(chosen)]
        if len(here) >= TELLING:
            pace_of = float(np.median(here))
            yield {
                "machine": timed[0].device,
                "cells": "smoke" if small else "others",
                "count": len(here),
                "times": _round(float(np.exp(pace_of))),
                "within": _round(_within(here)),
                "then within": _round(_within(here - pace_of)),
            }


def _within(errors: np.ndarray) -> float:
    """The share that is off by less than `FACTOR`."""
    return float(np.mean(np.abs(errors) < np.log(FACTOR)))


def _errors(
    fit: Fit, logs: np.ndarray, left_out: np.ndarray, among: np.ndarray
) -> dict[str, float]:
    """Deviations of smoke cells, which ran undisturbed: of those that the fit has not seen, and of
    those of a method with a model about the middle of such cells. Eight in ten lie within 1.28.
    """
    kinds: dict[tuple[str, str], list[float]] = {}
    rest = fit.logs - fit.expected(logs)
    for each, error in zip(fit.timed, rest, strict=True):
        if each.scale == "smoke":
            kinds.setdefault((each.cell.method, str(each.cell.recipe)), []).append(float(error))
    alike = [
        error - np.median(errors)
        for errors in kinds.values()
        if len(errors) > 2
        for error in errors
    ]
    eight = {"cell": left_out[among], "alike": np.array(alike)}
    return {
        name: _round(float(np.quantile(np.abs(all_), 0.8)) / REACH) for name, all_ in eight.items()
    }


OTHERS = {"calibrated": 0.2, "else": 0.4}
"""Deviations between machines, supposed: of one that was calibrated, and of one that was not."""
_SHARES = tuple(field.name for field in fields(Share))


def _round(value: float) -> float:
    return float(f"{value:.3g}")


def count_models() -> None:
    """Write `operations.csv` for all models and inputs of the grids."""
    shapes = {
        operations.shape_of(item.cell.recipe)
        for scale in grids.SCALES
        for item in unique(plan(Selection(scale=scale)))
    }
    names = [field.name for field in fields(operations.Network)]
    with operations.FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "channels", "size", "classes", *names])
        for shape in sorted(shapes):
            counts = astuple(operations.counted(*shape))
            writer.writerow([*shape, *(f"{value:.12g}" for value in counts)])


def main() -> None:
    """Count, fit, write."""
    count_models()
    operations.table.cache_clear()
    operations.network.cache_clear()
    pace.FILE.write_text(json.dumps(fitted(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
