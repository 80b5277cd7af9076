"""Claims on the printed numbers alone: arithmetic, repetitions, and the lattice of possible
accuracies.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core.claims.sentences import wide
from repfl.paper_tables.core.claims.shared_claims import setting
from repfl.paper_tables.core.evidence import Evidence, seed_count
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, claim
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
    """Return the numbers of a table's column by method and setting, for some methods or all."""
    rows = evidence.published
    selected = rows[(rows["table"] == table) & (rows["dataset"] == dataset)]
    selected = selected[selected["method"].isin(methods)] if methods else selected
    return selected.set_index(["method", "setting"])["value"].astype(float)


def on_lattice(values: Sequence[float] | np.ndarray | pd.Series) -> int:
    """Return how many of these percentages are whole numbers of 2,000 test decisions."""
    counts = np.asarray(values, dtype=float) * DECISIONS / 100
    return int(np.isclose(counts, counts.round(), atol=1e-6).sum())


def lattice(evidence: Evidence, table: str, methods: Sequence[str] = ()) -> Claim:
    """Return the claim that 2,000 test images can produce the printed CIFAR accuracies."""
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
    return claim(
        f"lattice-table{table}",
        text,
        hits == len(values),
        f"{hits} of {len(values)} printed numbers are (README, 10 and 15)",
        evidence.scale,
        place=f"Table {table}",
        printed=hits == len(values),
        exact=True,
        ours=True,
    )


def gain(evidence: Evidence, frame: pd.DataFrame) -> Claim:
    """Return the claim on the average improvement of section 5.2, which does not say over what: it
    is decided if two readings agree.
    """
    rows = select(evidence.published, table="text 5.2", dataset="all")
    bar = stated(rows)
    tables = {side: wide(frame[frame["source"] != ""], side) for side in ("printed", "ours")}
    leads = {side: _lead(table) for side, table in tables.items()}
    texts = {side: _leads_in_words(table, leads[side]) for side, table in tables.items()}
    complete = bool(np.isfinite(leads["ours"]).all())
    ours_text = texts["ours"] if complete else "not run yet"
    return claim(
        "average-improvement",
        f"FedSelect improves on the baselines by more than {bar:g} % on average",
        _agreed_answer(tables["ours"], leads["ours"], bar) if complete else None,
        f"ours: {ours_text}; reported: {texts['printed']} (README, 18)",
        evidence.scale,
        place="5.2",
        printed=_agreed_answer(tables["printed"], leads["printed"], bar),
        seeds=seed_count(evidence.cells),
        sources=tuple(rows["source"]),
    )


def _lead(table: pd.DataFrame) -> np.ndarray:
    """Return the points above the best baseline of each column."""
    others = table.loc[list(BASELINES)]
    top = others.max().where(others.notna().all())
    return (table.loc[OURS] - top).to_numpy(dtype=float)


def _over_one(table: pd.DataFrame) -> float:
    """Return the points above the single baseline that is best on average over the columns."""
    return float(table.loc[OURS].mean() - table.loc[list(BASELINES)].mean(axis=1).max())


def _leads_in_words(table: pd.DataFrame, lead: np.ndarray) -> str:
    per_column = ", ".join(f"{value:+.2f}" for value in lead)
    return (
        f"{per_column}, mean {lead.mean():.2f} points above the best baseline of each column; "
        f"{_over_one(table):.2f} above the baseline that is best on average"
    )


def _agreed_answer(table: pd.DataFrame, lead: np.ndarray, bar: float) -> bool | None:
    above = {bool(lead.mean() > bar), _over_one(table) > bar}
    return above.pop() if len(above) == 1 else None


def set_up(evidence: Evidence) -> Claim:
    """Return the claim that the numbers of section 5.1 agree with the planned cells of the paper
    scale.
    """
    rows = select(evidence.published, table="text 5.1")
    text = (
        "100 training images per client on CIFAR-10 and CIFAR10-C, a fifth of the training data for"
        " 20 clients on Mini-ImageNet, four clients with all 65 classes on OfficeHome"
    )
    words, sources = ("set-up", text, "5.1"), tuple(rows["source"])
    if evidence.scale != "paper":
        return setting(evidence.scale, words, False, "other clients and images", sources)
    cells: dict[str, dict[Any, Any]] = {
        str(cell["column"]): cell for cell in evidence.cells.to_dict("records")
    }
    clients = {key: cells[key]["recipe.clients"] for key in (MINI, OFFICE)}
    images = {
        key: cells[key]["partition.classes"] * cells[key]["partition.train"]
        for key in (CIFAR10, CIFAR10C, MINI)
    }
    pool = MINI_IMAGES * (1 - cells[MINI]["partition.test_share"])
    whole_domain = cells[OFFICE]["recipe.partition.rule"] == "domain"
    ours = {
        (CIFAR10, "training_images_per_client"): images[CIFAR10],
        (CIFAR10C, "training_images_per_client"): images[CIFAR10C],
        (MINI, "clients"): clients[MINI],
        (MINI, "share_of_training_data"): 100 * clients[MINI] * images[MINI] / pool,
        (OFFICE, "clients"): clients[OFFICE],
        (OFFICE, "classes_per_client"): OFFICE_CLASSES if whole_domain else nan,
    }
    printed = {(row["dataset"], row["metric"]): row["value"] for row in rows.to_dict("records")}
    same = printed == {
        (DATASETS[key], metric): round(value, 6) for (key, metric), value in ours.items()
    }
    values = ", ".join(
        f"{DATASETS[key]} {metric.replace('_', ' ')} {value:g}"
        for (key, metric), value in ours.items()
    )
    return setting(evidence.scale, words, same, values, sources)


def best_limit_shown(evidence: Evidence) -> Claim:
    """Return the claim that Table 1 has FedSelect's best numbers of Table 2."""
    tops = [
        stated_once(evidence, "1", name, OURS) == printed_numbers(evidence, "2", name).max()
        for name in DATASETS.values()
    ]
    return _identity(
        evidence,
        "best-limit-shown",
        "Table 1 shows FedSelect with the best α of Table 2 for each data set",
        "Table 1",
        tops,
        f"in {sum(tops)} of {len(tops)} columns (README, 23)",
    )


def rows_repeated(evidence: Evidence) -> Claim:
    """Return the claim that FedSelect's rows of Table 3 are copies."""
    same = []
    for name in DATASETS.values():
        rows, limits = (printed_numbers(evidence, table, name, [OURS]) for table in ("3", "2"))
        same += list(rows.eq(limits.reindex(rows.index)))
    return _identity(
        evidence,
        "rows-repeated",
        "Table 3 repeats two rows of Table 2",
        "Table 3",
        same,
        f"{sum(same)} of {len(same)} numbers",
        ours=True,
    )


def stated_once(evidence: Evidence, table: str, dataset: str, method: str) -> float:
    """Return a method's only number of a column."""
    return float(printed_numbers(evidence, table, dataset, [method]).iloc[0])


def _identity(
    evidence: Evidence,
    name: str,
    text: str,
    place: str,
    equal: Sequence[bool],
    detail: str,
    *,
    ours: bool = False,
) -> Claim:
    """Return a claim on printed numbers alone."""
    same = all(equal)
    return claim(
        name, text, same, detail, evidence.scale, place=place, printed=same, exact=True, ours=ours
    )
