"""Claims that several papers make: smooth curves, no more work than another method, a protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import nan

import numpy as np
import pandas as pd

from repfl.paper_tables.core.claims.sentences import all_met, in_words
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.number_text import plain
from repfl.paper_tables.core.result import Claim, State, claim


def _roughness(curve: pd.Series) -> float:
    """Return the mean change between scored rounds in the second half of a run, up or down."""
    late = curve.to_numpy(dtype=float)[len(curve) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else nan


def smoothest(
    runs: pd.DataFrame,
    columns: Mapping[str, str],
    rivals: Sequence[str],
    own: str,
    words: tuple[str, str, str, str],
) -> Claim:
    """Return the claim that a method's curves change least from round to round, compared run by run
    over common seeds: a mean of several runs is smoother than each of them. `words` are its id,
    text, place and scale.
    """
    by_run = runs.sort_values("round").groupby(["column", "label", "seed"])["value"]
    changes = by_run.agg(_roughness).unstack("seed")
    answers: list[bool | None] = []
    parts, seeds = [], []
    for key, column in columns.items():
        smoother, compared = [], 0
        for rival in rivals:
            pair = changes.reindex([(key, own), (key, rival)]).dropna(axis="columns")
            if not pair.shape[1]:
                continue
            own_mean, other = pair.mean(axis="columns")
            compared += 1
            seeds.append(pair.shape[1])
            if other < own_mean:
                smoother.append(f"{rival} {other:.2f} against {own_mean:.2f} points a round")
        answers.append(False if smoother else True if compared == len(rivals) else None)
        if compared:
            parts.append(
                f"{column}: {compared} of {len(rivals)} baselines have run on the same seeds,"
                f" {len(smoother)} of them smoother{' (' if smoother else ''}"
                f"{', '.join(smoother)}{')' if smoother else ''}"
            )
    detail = "; ".join(parts) or "no run has ended"
    detail += f"; common seeds: {min(seeds)}" if seeds else ""
    name, text, place, scale = words
    answer = False if False in answers else None if None in answers else True
    least = min(seeds, default=0)
    return claim(name, text, answer, detail, scale, place=place, seeds=least)


def work(evidence: Evidence, row: str, column: str) -> float:
    """Return the multiply-adds per client and training round, mean over finished runs; NaN if they
    were not counted.
    """
    fields = ["work.multiply_adds", "work.clients", "work.rounds"]
    cells = evidence.cells
    done = cells[(cells["row"] == row) & (cells["column"] == column) & (cells["status"] == "done")]
    if not set(fields) <= set(done.columns):
        return nan
    total, clients, rounds = (done[field].astype(float) for field in fields)
    return float((total / clients / rounds).mean())


def same_work(
    evidence: Evidence,
    words: tuple[str, str, str],
    pairs: Sequence[tuple[str, str]],
    columns: Mapping[str, str],
    most: float,
) -> Claim:
    """Return the claim that the first method of each pair takes at most `most` times the operations
    of the second, in every column; `words` are its id, text and place.
    """
    ratios = {
        f"{own} over {other}, {label}": work(evidence, own, key) / work(evidence, other, key)
        for key, label in columns.items()
        for own, other in pairs
    }
    measured = {pair: ratio for pair, ratio in ratios.items() if ratio == ratio}
    name, text, place = words
    return claim(
        name,
        text,
        all_met(measured, lambda ratio: ratio <= most),
        "multiply-adds of a client and round, counted in training: "
        + in_words(measured, partial(plain, digits=3)),
        evidence.scale,
        place=place,
        any_run=True,
    )


def protocol(
    evidence: Evidence,
    cells: pd.DataFrame,
    words: tuple[str, str, str],
    used: Mapping[str, str],
    rows: pd.DataFrame,
) -> Claim:
    """Return the claim that cells are planned as the text says: published `rows` of these metrics
    equal fields of the cells, at the paper scale. `words` are its id, text and place.
    """
    published = dict(zip(rows["metric"], rows["value"], strict=True))
    planned = {
        metric: sorted({float(value) for value in cells[field]}) if field in cells else []
        for metric, field in used.items()
    }
    same = all(
        len(values) == 1 and abs(values[0] - published[metric]) < SETTING_TOLERANCE
        for metric, values in planned.items()
    )
    settings = ", ".join(
        f"{metric.replace('_', ' ')} {'/'.join(f'{v:g}' for v in values)}"
        for metric, values in planned.items()
    )
    sources = tuple(rows.loc[rows["metric"].isin(list(used)), "source"])
    return setting(evidence.scale, words, same, settings if len(cells) else "no cell", sources)


SETTING_TOLERANCE = 1e-9
"""Settings are whole numbers or short decimals, which floats hold no closer."""


def setting(
    scale: str,
    words: tuple[str, str, str],
    same: bool,
    settings: str,
    sources: tuple[str, ...] = (),
) -> Claim:
    """Return the claim that runs are set up as the text says, which tests nothing. `words` are its
    id, text and place.
    """
    name, text, place = words
    reduced = "reduced and toy runs have settings of their own"
    taken = {
        True: "our full-scale runs are planned with the same",
        False: "our full-scale runs are planned with another",
    }
    why = f"{taken[same] if scale == 'paper' else reduced}: {settings}"
    return Claim(name, text, State.SETTING, why, scale, place, sources=sources)
