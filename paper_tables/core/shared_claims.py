"""Claims that several papers make: smooth curves, no more work than another method, a protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np
import pandas as pd

from repfl.paper_tables.core.claims import counted
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Claim


def roughness(line: pd.DataFrame) -> float:
    """Return the mean change of accuracy between scored rounds in the second half of a run, up or
    down, in points.
    """
    values = line.sort_values("round")["mean"].to_numpy(dtype=float)
    late = values[len(values) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else nan


def smoothest(
    data: pd.DataFrame,
    columns: Mapping[str, str],
    own: str,
    name: str,
    text: str,
    scale: str,
    without: Sequence[str] = (),
) -> Claim:
    """Return whether a method's curves move least from round to round; methods that are scored only
    now and then are left out.
    """
    parts, holds = [], []
    for key, label in columns.items():
        lines = data[(data["column"] == key) & ~data["label"].isin(list(without))]
        found = {str(label): roughness(line) for label, line in lines.groupby("label", sort=False)}
        mine = found.pop(own, nan)
        if mine == mine and found:
            rank = 1 + sum(value < mine for value in found.values())
            most = int(lines["seeds"].max())
            parts.append(
                f"{label} {mine:.2f} points a round, place {rank} of {len(found) + 1} from the"
                f" smoothest ({'1 seed' if most == 1 else f'{most} seeds'})"
            )
            holds.append(rank == 1)
    told = "; ".join(parts) or "no run has ended"
    return Claim(name, text, all(holds) if parts else None, told, scale)


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
