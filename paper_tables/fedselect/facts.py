"""What the printed numbers say about themselves: arithmetic, repetitions, and the grid of possible accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import pandas as pd

from paper_tables.core.claims import numbers, wide
from paper_tables.core.evidence import Evidence
from paper_tables.core.result import Claim
from paper_tables.fedselect.settings import BASELINES, CIFAR10, CIFAR10C, DATASETS, OURS

DECISIONS = 2000
"""Ten clients with 200 test images each."""


def printed_numbers(evidence: Evidence, table: str, dataset: str, methods: Sequence[str] = ()) -> pd.Series:
    """Numbers of a table's column by method and setting, narrowed to some methods."""
    rows = evidence.published
    kept = rows[(rows["table"] == table) & (rows["dataset"] == dataset)]
    kept = kept[kept["method"].isin(methods)] if methods else kept
    return kept.set_index(["method", "setting"])["value"].astype(float)


def on_lattice(values: Sequence[float] | np.ndarray | pd.Series) -> int:
    """How many of these percentages are whole numbers of 2,000 test decisions."""
    counts = np.asarray(values, dtype=float) * DECISIONS / 100
    return int(np.isclose(counts, counts.round(), atol=1e-6).sum())


def lattice(evidence: Evidence, table: str, methods: Sequence[str] = ()) -> Claim:
    """Whether the printed CIFAR accuracies are what 2,000 test images can produce, and ours are scored on as many."""
    values = [v for key in (CIFAR10, CIFAR10C) for v in printed_numbers(evidence, table, DATASETS[key], methods)]
    hits = on_lattice(values)
    whose = "of the ablations " if methods else ""
    text = f"The CIFAR accuracies {whose}in Table {table} are shares of {DECISIONS:,} test decisions (multiples of 0.05 %)"
    return Claim(text, hits == len(values), f"{hits} of {len(values)} printed numbers are (README, 10 and 15)", hits == len(values))


def gain(evidence: Evidence, frame: pd.DataFrame) -> Claim:
    """The average improvement of section 5.2, against the best baseline of each column."""
    rows = evidence.published[(evidence.published["table"] == "text 5.2") & (evidence.published["dataset"] == "all")]
    stated = float(rows["value"].iloc[0])
    found = {side: _lead(wide(frame[frame["source"] != ""], side)) for side in ("published", "ours")}
    known = bool(np.isfinite(found["ours"]).all()) and set(frame["scale"]) == {"paper"}
    told = {side: f"{', '.join(f'{v:+.2f}' for v in values)}, mean {values.mean():.2f}" for side, values in found.items()}
    ours = f"ours: {told['ours']}; " if isfinite(float(found["ours"].sum())) else ""
    return Claim(
        f"FedSelect improves on the baselines by more than {stated:g} % on average",
        float(found["ours"].mean()) > stated if known else None,
        f"{ours}printed: {told['published']} points above the best baseline of each column (README, 18)",
        float(found["published"].mean()) > stated,
        tuple(rows["source"]),
    )


def _lead(table: pd.DataFrame) -> np.ndarray:
    others = table.loc[list(BASELINES)]
    return numbers(table, OURS) - others.max().where(others.notna().all()).to_numpy(dtype=float)


def repeats(evidence: Evidence) -> tuple[Claim, ...]:
    """Which numbers of the tables are copies of each other."""
    names = DATASETS.values()
    limits = {name: printed_numbers(evidence, "2", name) for name in names}
    tops = sum(float(printed_numbers(evidence, "1", name, [OURS]).iloc[0]) == limits[name].max() for name in names)
    rows = {name: printed_numbers(evidence, "3", name, [OURS]) for name in names}
    same = sum(int(rows[name].eq(limits[name].reindex(rows[name].index)).sum()) for name in names)
    return (
        Claim(
            "Table 1 shows FedSelect with the best α of Table 2 for each data set",
            tops == len(limits),
            f"in {tops} of {len(limits)} columns; chosen on the test images (README, 23)",
            tops == len(limits),
        ),
        Claim("Table 3 repeats two rows of Table 2", same == 2 * len(rows), f"{same} of {2 * len(rows)} numbers", same == 2 * len(rows)),
    )
