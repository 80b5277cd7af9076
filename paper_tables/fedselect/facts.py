"""What the printed numbers say about themselves: arithmetic, repetitions, and the grid of possible
accuracies.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core.claims import numbers, wide
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.fedselect.settings import (
    BASELINES,
    CIFAR10,
    CIFAR10C,
    DATASETS,
    MINI,
    OFFICE,
    OURS,
)

DECISIONS = 2000
"""Ten clients with 200 test images each."""
MINI_IMAGES, OFFICE_CLASSES = 60_000, 65


def printed_numbers(
    evidence: Evidence, table: str, dataset: str, methods: Sequence[str] = ()
) -> pd.Series:
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
    """Whether the printed CIFAR accuracies are what 2,000 test images can produce, and ours are
    scored on as many.
    """
    values = [
        v
        for key in (CIFAR10, CIFAR10C)
        for v in printed_numbers(evidence, table, DATASETS[key], methods)
    ]
    hits = on_lattice(values)
    whose = "of the ablations " if methods else ""
    text = (
        f"The CIFAR accuracies {whose}in Table {table} are shares of {DECISIONS:,} test decisions"
        " (multiples of 0.05 %)"
    )
    return Claim(
        text,
        hits == len(values),
        f"{hits} of {len(values)} printed numbers are (README, 10 and 15)",
        hits == len(values),
    )


def gain(evidence: Evidence, frame: pd.DataFrame) -> Claim:
    """The average improvement of section 5.2, which does not say over what: two readings, and a
    verdict where they agree.
    """
    rows = evidence.published[
        (evidence.published["table"] == "text 5.2") & (evidence.published["dataset"] == "all")
    ]
    stated = float(rows["value"].iloc[0])
    found = {side: wide(frame[frame["source"] != ""], side) for side in ("published", "ours")}
    leads = {side: _lead(table) for side, table in found.items()}
    known = bool(np.isfinite(leads["ours"]).all()) and set(frame["scale"]) == {"paper"}
    told = {side: _told(table, leads[side]) for side, table in found.items()}
    ours = f"ours: {told['ours']}; " if isfinite(float(leads["ours"].sum())) else ""
    return Claim(
        f"FedSelect improves on the baselines by more than {stated:g} % on average",
        _agreed(found["ours"], leads["ours"], stated) if known else None,
        f"{ours}printed: {told['published']} (README, 18)",
        _agreed(found["published"], leads["published"], stated),
        tuple(rows["source"]),
    )


def _lead(table: pd.DataFrame) -> np.ndarray:
    """Points above the best baseline of each column."""
    others = table.loc[list(BASELINES)]
    return numbers(table, OURS) - others.max().where(others.notna().all()).to_numpy(dtype=float)


def _over_one(table: pd.DataFrame) -> float:
    """Points above the single baseline that is best on average over the columns."""
    return float(numbers(table, OURS).mean() - table.loc[list(BASELINES)].mean(axis=1).max())


def _told(table: pd.DataFrame, lead: np.ndarray) -> str:
    per_column = ", ".join(f"{value:+.2f}" for value in lead)
    return (
        f"{per_column}, mean {lead.mean():.2f} points above the best baseline of each column; "
        f"{_over_one(table):.2f} above the baseline that is best on average"
    )


def _agreed(table: pd.DataFrame, lead: np.ndarray, stated: float) -> bool | None:
    above = {bool(lead.mean() > stated), _over_one(table) > stated}
    return above.pop() if len(above) == 1 else None


def set_up(evidence: Evidence) -> Claim:
    """Section 5.1, as far as its numbers survive in the text: against the planned cells of the
    paper scale.
    """
    rows = evidence.published[evidence.published["table"] == "text 5.1"]
    text = (
        "100 training images per client on CIFAR-10 and CIFAR10-C, a fifth of the training data for"
        " 20 clients on Mini-ImageNet, four clients with all 65 classes on OfficeHome"
    )
    if evidence.scale != "paper":
        return Claim(
            text,
            None,
            "other clients and images below the paper scale",
            None,
            tuple(rows["source"]),
        )
    cells: dict[str, dict[Any, Any]] = {
        str(cell["column"]): cell for cell in evidence.cells.to_dict("records")
    }
    clients = {key: cells[key]["recipe.clients"] for key in (MINI, OFFICE)}
    images = {
        key: cells[key]["partition.classes"] * cells[key]["partition.train"]
        for key in (CIFAR10, CIFAR10C, MINI)
    }
    pool = MINI_IMAGES * (1 - cells[MINI]["partition.test_share"])
    whole = cells[OFFICE]["recipe.partition.rule"] == "domain"
    ours = {
        (CIFAR10, "training_images_per_client"): images[CIFAR10],
        (CIFAR10C, "training_images_per_client"): images[CIFAR10C],
        (MINI, "clients"): clients[MINI],
        (MINI, "share_of_training_data"): 100 * clients[MINI] * images[MINI] / pool,
        (OFFICE, "clients"): clients[OFFICE],
        (OFFICE, "classes_per_client"): OFFICE_CLASSES if whole else nan,
    }
    stated = {(row["dataset"], row["metric"]): row["value"] for row in rows.to_dict("records")}
    same = stated == {
        (DATASETS[key], metric): round(value, 6) for (key, metric), value in ours.items()
    }
    detail = ", ".join(
        f"{DATASETS[key]} {metric.replace('_', ' ')} {value:g}"
        for (key, metric), value in ours.items()
    )
    return Claim(text, same, f"ours: {detail}", None, tuple(rows["source"]))


def repeats(evidence: Evidence) -> tuple[Claim, ...]:
    """Which numbers of the tables are copies of each other."""
    names = DATASETS.values()
    limits = {name: printed_numbers(evidence, "2", name) for name in names}
    tops = sum(
        float(printed_numbers(evidence, "1", name, [OURS]).iloc[0]) == limits[name].max()
        for name in names
    )
    rows = {name: printed_numbers(evidence, "3", name, [OURS]) for name in names}
    same = sum(int(rows[name].eq(limits[name].reindex(rows[name].index)).sum()) for name in names)
    return (
        Claim(
            "Table 1 shows FedSelect with the best α of Table 2 for each data set",
            tops == len(limits),
            f"in {tops} of {len(limits)} columns (README, 23)",
            tops == len(limits),
        ),
        Claim(
            "Table 3 repeats two rows of Table 2",
            same == 2 * len(rows),
            f"{same} of {2 * len(rows)} numbers",
            same == 2 * len(rows),
        ),
    )
