"""Claims that several papers make: smooth curves, no more work than another method, a protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np
import pandas as pd

from repfl.paper_tables.core.claims.claim_evidence import join
from repfl.paper_tables.core.claims.sentences import counted
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.core.statistics.intervals import FEWEST


def _roughness(curve: pd.Series) -> float:
    """Return the mean change between scored rounds in the second half of a run, up or down."""
    late = curve.to_numpy(dtype=float)[len(curve) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else nan


def smoothest(
    runs: pd.DataFrame,
    columns: Mapping[str, str],
    rivals: Sequence[str],
    own: str,
    claim: tuple[str, str, str],
    full_scale_only: bool = False,
) -> Claim:
    """Return whether a method's curves move least from round to round, compared run by run over
    common seeds: the mean of several runs is smoother than each of them. A claim is its id, its
    text and its scale.
    """
    by_run = runs.sort_values("round").groupby(["column", "label", "seed"])["value"]
    changes = by_run.agg(_roughness).unstack("seed")
    answers: list[bool | None] = []
    parts, seeds = [], []
    for key, column in columns.items():
        smoother, compared = [], 0
        for rival in rivals:
            both = changes.reindex([(key, own), (key, rival)]).dropna(axis="columns")
            if not both.shape[1]:
                continue
            mine, other = both.mean(axis="columns")
            compared += 1
            seeds.append(both.shape[1])
            if other < mine:
                smoother.append(f"{rival} {other:.2f} against {mine:.2f} points a round")
        answers.append(False if smoother else True if compared == len(rivals) else None)
        if compared:
            parts.append(
                f"{column}: {compared} of {len(rivals)} baselines have run on the same seeds,"
                f" {len(smoother)} of them smoother{' (' if smoother else ''}"
                f"{', '.join(smoother)}{')' if smoother else ''}"
            )
    told = "; ".join(parts) or "no run has ended"
    told += f"; common seeds: {min(seeds)}" if seeds else ""
    name, text, scale = claim
    return Claim(
        name,
        text,
        join(answers, len(answers)),
        told,
        scale,
        full_scale_only=full_scale_only,
        few_seeds=min(seeds, default=0) < FEWEST,
    )


def work(evidence: Evidence, row: str, column: str) -> float:
    """Return the multiply-adds of a client in a round of training, mean over finished runs; NaN of
    runs that counted none.
    """
    fields = ["work.multiply_adds", "work.clients", "work.rounds"]
    cells = evidence.cells
    mine = cells[(cells["row"] == row) & (cells["column"] == column) & (cells["status"] == "done")]
    if not set(fields) <= set(mine.columns):
        return nan
    total, clients, rounds = (mine[field].astype(float) for field in fields)
    return float((total / clients / rounds).mean())


def same_work(
    evidence: Evidence,
    name: str,
    text: str,
    pairs: Sequence[tuple[str, str]],
    columns: Mapping[str, str],
    most: float,
) -> Claim:
    """Return whether the first method of each pair takes no more than `most` times the operations
    of the second, in every column.
    """
    ratios = {
        f"{own} over {other}, {label}": work(evidence, own, key) / work(evidence, other, key)
        for key, label in columns.items()
        for own, other in pairs
    }
    known = {place: ratio for place, ratio in ratios.items() if ratio == ratio}
    return counted(
        name,
        text,
        evidence.scale,
        known or {"": nan},
        lambda ratio: ratio <= most,
        told="{:.3f}",
        ours_are="multiply-adds of a client and round, counted in training",
        few_seeds=False,
    )


def protocol(
    evidence: Evidence,
    cells: pd.DataFrame,
    name: str,
    text: str,
    used: Mapping[str, str],
    rows: pd.DataFrame,
) -> Claim:
    """Return whether cells are planned as the text says: published `rows` of these metrics against
    fields of the cells, exactly, at the paper scale.
    """
    stated = dict(zip(rows["metric"], rows["value"], strict=True))
    found = {
        metric: sorted({float(value) for value in cells[field]}) if field in cells else []
        for metric, field in used.items()
    }
    same = all(
        len(values) == 1 and abs(values[0] - stated[metric]) < EXACTLY
        for metric, values in found.items()
    )
    said = ", ".join(
        f"{metric.replace('_', ' ')} {'/'.join(f'{v:g}' for v in values)}"
        for metric, values in found.items()
    )
    return Claim(
        name,
        text,
        same if len(cells) and evidence.scale == "paper" else None,
        f"settings of the {evidence.scale} scale: {said}"
        if len(cells)
        else f"no cell at the {evidence.scale} scale",
        evidence.scale,
        sources=tuple(rows.loc[rows["metric"].isin(list(used)), "source"]),
        settings=True,
    )


EXACTLY = 1e-9
"""Settings are whole or short decimals, which floats hold no closer."""
