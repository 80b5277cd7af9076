"""FedSelect's sentences that need code: arithmetic, repetitions and the lattice of the printed
accuracies, and what is communicated.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core.claims.sentences import wide
from repfl.paper_tables.core.claims.shared_claims import setting
from repfl.paper_tables.core.evidence import Evidence, noted, pick, scores, seed_count
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, claim
from repfl.paper_tables.core.statistics.verdict import MARGIN
from repfl.paper_tables.fedselect.settings import (
    ALPHAS,
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
    per_column = ", ".join(signed(value) for value in lead)
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


# -- what is communicated: personal shares, their two extremes, and bytes --------------------------

LARGE_ALPHAS = ("0.50", "0.80")
ROUNDING = 1e-6
DRIFT = (
    "where the two add in another order, in float32; in float64 they agree to twelve digits"
    " (tests/algorithms/test_fedselect.py)"
)


PERSONAL = "personal"
"""The note of the share of maskable parameters that are personal, mean over clients."""


def _by_seed(evidence: Evidence, row: str, point: str | None = None) -> pd.Series:
    done = pick(evidence, row=row, column=CIFAR10, done=True)
    return pd.Series(scores(done, point), index=done["seed"], dtype=float)


def equals_fedavg(evidence: Evidence) -> Claim:
    """Return the claim of section 4.4 that without personal parameters the method is FedAvg; the
    locally trained models are compared seed by seed.
    """
    name, text = "no-limit-is-fedavg", "With α = 0 FedSelect reduces exactly to FedAvg"
    fedavg, gaps = _by_seed(evidence, "FedAvg", "pre_agg"), {}
    for row in ("α = 0", "α = 0, code's rules"):
        both = pd.concat([_by_seed(evidence, row), fedavg], axis=1, join="inner").dropna()
        gaps[row] = float((both.iloc[:, 0] - both.iloc[:, 1]).abs().max()) if len(both) else nan
    exact, code = gaps.values()
    if not isfinite(exact):
        return claim(
            name, text, None, f"not run at the {evidence.scale} scale", evidence.scale, place="4.4"
        )
    share = [
        noted(m, PERSONAL)
        for m in pick(evidence, row="α = 0, code's rules", column=CIFAR10, done=True)["metrics"]
    ]
    code_words = (
        f"; by the code's rules {code:.2f} points, with {100 * max(share):.1f} % personal"
        " parameters (README, 1)"
        if share
        else ""
    )
    answer = True if exact <= ROUNDING else False if exact > MARGIN else None
    detail = f"largest gap between equal seeds {exact:.2f} points, {DRIFT}{code_words}"
    return claim(name, text, answer, detail, evidence.scale, place="4.4", any_run=True)


def stops_at_limit(evidence: Evidence, shares: pd.DataFrame) -> Claim:
    """Return the claim of Algorithm 3 that a personal share below α grows, and another does not: it
    ends above α by less than one growth.
    """
    name = "stops-at-limit"
    text = "The personal share stops growing at α, which its last growth may exceed by less than p"
    table = shares.dropna(subset="ours").groupby("row")["ours"].max() / 100
    reached = {a: float(table[f"α = {a}"]) for a in ALPHAS if f"α = {a}" in table}
    if not reached:
        return claim(name, text, None, "no run has ended", evidence.scale, place="Algorithm 3")
    rows = evidence.cells["row"].isin([f"α = {a}" for a in reached])
    rate = float(evidence.cells.loc[rows, "hp.rate"].max())
    bounds = {a: float(a) + rate * (1 - float(a)) for a in reached}
    over = [a for a, share in reached.items() if share > bounds[a] + ROUNDING]
    answer = False if over else True if len(reached) == len(ALPHAS) else None
    words = ", ".join(f"{100 * share:.1f} % at α = {a}" for a, share in reached.items())
    words += f" ({len(ALPHAS) - len(reached)} limits not run)" if len(reached) < len(ALPHAS) else ""
    detail = f"with p = {rate:g} at most {words} (README, 2)"
    return claim(name, text, answer, detail, evidence.scale, place="Algorithm 3", any_run=True)


def cheaper_over_time(evidence: Evidence) -> Claim:
    """Return the claim of section 4.4 that for a large α later rounds send less; masks are
    billed.
    """
    name, text = "cheaper-over-time", "With α = 0.50 and more, communication falls over the rounds"
    parts, holds = [], []
    for alpha in LARGE_ALPHAS:
        first, last = _uplink(evidence, f"α = {alpha}")
        if isfinite(last):
            parts.append(
                f"with α = {alpha} {last / first:.2f} of the first round's bytes in the last"
            )
            holds.append(last < first)
    if not parts:
        return claim(name, text, None, "no run has ended", evidence.scale, place="4.4")
    detail = "; ".join(parts) + " (values and masks, up)"
    seeds = seed_count(
        evidence.cells[evidence.cells["row"].isin([f"α = {a}" for a in LARGE_ALPHAS])]
    )
    return claim(name, text, all(holds), detail, evidence.scale, place="4.4", seeds=seeds)


def _uplink(evidence: Evidence, row: str) -> tuple[float, float]:
    """Return the bytes that clients send in the first and in the last round, values and masks, mean
    over runs.
    """
    done = pick(evidence, row=row, column=CIFAR10, done=True)
    sent = evidence.rounds(list(done["id"]), "traffic/up_values", "traffic/up_codes")
    if sent.empty:
        return nan, nan
    curve = sent.groupby("round")["value"].sum()
    return float(curve.iloc[0]), float(curve.iloc[-1])
