"""Tables I and II: facts that need no accuracy. Sizes are looked up, personal entries are counted
in real masks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from math import ceil, floor, isfinite, nan
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.evidence import Evidence, noted, pick, why_missing
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import CELL_FIELDS, Claim, Column, Table, claim
from repfl.paper_tables.core.statistics.verdict import Kind, Verdict
from repfl.paper_tables.core.tables import Place, Row
from repfl.paper_tables.fedobp.settings import ALPHAS, DATASETS, OURS, PAPER, PRINTED

FACTS = (
    Column("samples", "samples", unit="", digits=0, best=None),
    Column("classes", "classes", unit="", digits=0, best=None),
    Column("resolution", "side in pixels", unit="", digits=0, best=None),
    Column("year", "year", unit="", digits=0, best=None),
)


DATA_ROWS = tuple(Row(label) for label in DATASETS.values())
SOURCES = (
    "Ours: sizes and years as the data sets' own publications state them (tests hold the sizes"
    " against the data sets' descriptions), classes and resolution as the models of our runs have"
    " them. README, 29."
)
SHARED_LINE = (
    "CIFAR-10 and CIFAR-100, and OrganAMNIST and OrganCMNIST, share a line in the paper; here each"
    " has its own."
)
ROUNDED_UP = (
    "N is the size of the model that ran; personal is (N − 1)(1 − q) rounded up, which is what"
    " linear interpolation of the quantile and a strict comparison leave above it, and here equals"
    " N (1 − q) rounded up. The paper's own definition of a quantile, and its prose, round down."
    " README, 6."
)
IN_MASKS = (
    "In masks: entries above the quantile in real masks of the true model (second round, mean over"
    " three clients). Scores that tie at the quantile stay global, so a mask may have an entry"
    " fewer."
)
INPUT = "The quantile q is an input; a test holds that the runs of tables III and IV use it."


@cache
def official() -> pd.DataFrame:
    """Return sizes and years as the data sets' own publications state them."""
    return pd.read_csv(Path(__file__).parent / "official.csv", keep_default_na=False).set_index(
        "dataset"
    )


def blank(evidence: Evidence, cells: pd.DataFrame) -> dict[str, Any]:
    """Return the fields of a table cell whose value is a fact."""
    fields = our_numbers.gather(cells, evidence.scale, [])
    seeds = int((cells["status"] == "done").sum()) if len(cells) else 0
    return fields | {"reason": "", "seeds": seeds}


# -- Table I ---------------------------------------------------------------------------------------


def table1(evidence: Evidence) -> Table:
    """Return Table I: samples, classes, resolution and year of eight data sets."""
    cells = [_fact(evidence, short, column.key) for short in DATASETS for column in FACTS]
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    return forms.table(
        evidence,
        (PAPER, "table1"),
        "Table I: statistics of the data sets",
        "",
        rows=DATA_ROWS,
        columns=FACTS,
        frame=frame,
        notes=(SOURCES, SHARED_LINE),
        caption="What the paper prints about its data sets, and what they are. Exact at every"
        " scale.",
        corner="Data set",
        floor=False,
    )


def _fact(evidence: Evidence, short: str, name: str) -> dict[str, Any]:
    planned = pick(evidence, row=DATASETS[short])
    printed = tables.printed_fields(
        tables.published_row(evidence.published, "I", Place(PRINTED[short], "", name), "")
    )
    if name == "resolution" and (match := re.match(r"(\d+)x\1$", str(printed["printed_as"]))):
        printed["printed"] = float(match[1])
    facts = official().loc[short].to_dict()
    ours = {"samples": facts["samples"], "year": facts["year"], **_shape(planned)}[name]
    cell = {
        "row": DATASETS[short],
        "column": name,
        **printed,
        **blank(evidence, planned),
        "ours": float(ours),
    }
    cell = tables.conclude(cell, "", Kind.LOOKUP)
    evidence_of_error = str(facts["evidence"])
    return cell | ({"reason": evidence_of_error} if cell["verdict"] == Verdict.DIFFERS else {})


def _shape(planned: pd.DataFrame) -> dict[str, float]:
    """Return classes and side of the images of the planned run."""
    if planned.empty:
        return {"classes": nan, "resolution": nan}
    cell = planned.iloc[0]
    return {"classes": float(cell["recipe.classes"]), "resolution": float(cell["recipe.input"][1])}


# -- Table II --------------------------------------------------------------------------------------

KINDS = (
    ("q", "q", 5),
    ("personal", "personal", 0),
    ("masks", "in masks", 2),
    ("floor", "rounded down", 0),
)
COUNTS = (
    *(
        Column(f"{alpha}/{kind}", label, f"Dir({alpha})", unit="", digits=digits, best=None)
        for alpha in ALPHAS
        for kind, label, digits in KINDS
    ),
    Column("size", "N", "Model", unit="", digits=0, best=None),
)
METRICS = {"q": "quantile_q", "personal": "personalized_params"}
SLIP = ("organa", "0.1")
SLIP_WORDS = (
    "53 does not follow from q = 0.9999, which gives 59; q = 0.99991 would give 53 (README, 28)"
)


def table2(evidence: Evidence) -> Table:
    """Return Table II: the quantile of every setting, and how many entries lie above it."""
    cells = [_count(evidence, short, column) for short in DATASETS for column in COUNTS]
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    return forms.table(
        evidence,
        (PAPER, "table2"),
        "Table II: quantiles and numbers of personal parameters",
        "",
        rows=DATA_ROWS,
        columns=COUNTS,
        frame=frame,
        notes=(ROUNDED_UP, IN_MASKS, INPUT),
        claims=lambda frame: table2_claims(evidence, frame),
        caption="How many of N parameters stay personal at the paper's quantiles. Exact at every"
        " scale.",
        corner="Data set",
        floor=False,
    )


def _count(evidence: Evidence, short: str, column: Column) -> dict[str, Any]:
    alpha, _, kind = column.key.rpartition("/")
    planned = pick(evidence, row=f"{DATASETS[short]}, Dir({alpha or ALPHAS[0]})")
    published = None
    if kind in METRICS:
        published = tables.published_row(
            evidence.published, "II", Place(PRINTED[short], f"Dir({alpha})", METRICS[kind]), OURS
        )
    cell = {
        "row": DATASETS[short],
        "column": column.key,
        **tables.printed_fields(published),
        **blank(evidence, planned),
    }
    cell |= {
        "ours": _counted(planned, kind),
        "reason": why_missing(planned, evidence.scale) if kind == "masks" else "",
    }
    if kind == "q":
        cell = tables.conclude(
            cell, "", Kind.SETTING, why_incomparable="an input, which our runs take over"
        )
    else:
        cell = tables.conclude(cell, "", Kind.CLOSED)
    if kind == "personal" and (short, alpha) == SLIP and cell["verdict"] == Verdict.DIFFERS:
        cell["reason"] = SLIP_WORDS
    return cell


def _counted(planned: pd.DataFrame, kind: str) -> float:
    """Return one number of a setting's runs: its quantile, the number that follows from N and q, or
    the personal entries in its masks.
    """
    if planned.empty:
        return nan
    cell = planned.iloc[0]
    if kind == "q":
        return float(cell["hp.q"])
    if kind == "masks":  # a float32 mean over clients of whole numbers
        return round(noted(cell["metrics"], "personal"), 3)
    size = float(cell["parameters"]) if pd.notna(cell["parameters"]) else nan
    if kind == "size" or not isfinite(size):
        return size
    rest = 1 - float(cell["hp.q"])
    return float(floor(size * rest) if kind == "floor" else ceil((size - 1) * rest))


Counts = Mapping[tuple[str, str], float]


def table2_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims on rounding, the abstract's share, and the 18 parameters of section V-D."""
    cells = frame.set_index(["row", "column"])
    settings = [(label, alpha) for label in DATASETS.values() for alpha in ALPHAS]
    printed, counted, masks = (
        {(label, alpha): float(cells[side][label, f"{alpha}/{kind}"]) for label, alpha in settings}
        for side, kind in (("printed", "personal"), ("ours", "personal"), ("ours", "masks"))
    )
    sizes = {setting: float(cells["ours"][setting[0], "size"]) for setting in settings}
    # without runs of the true models nothing is counted
    complete = all(map(isfinite, counted.values()))
    last = select(evidence.published, table="text V-D", setting="400 rounds")
    said = partial(claim, scale=evidence.scale, exact=True)
    eighteen = said(
        "eighteen-parameters",
        "With 400 rounds I_O needs 18 personal parameters on CIFAR-10",
        counted["CIFAR-10", "0.1"] == stated(last) if complete else None,
        f"N (1 − q), rounded up, is {counted['CIFAR-10', '0.1']:.0f}",
        place="V-D",
        printed=printed["CIFAR-10", "0.1"] == stated(last),
        sources=tuple(last["source"]),
    )
    wrong = [
        f"{label} Dir({alpha}) prints {printed[label, alpha]:.0f}"
        for label, alpha in settings
        if printed[label, alpha] != counted[label, alpha]
    ]
    rounding = said(
        "counts-follow",
        "The numbers of Table II follow from N and q, rounded up",
        not wrong if complete else None,
        f"{len(counted) - len(wrong)} of {len(counted)} do; {'; '.join(wrong)} (README, 28)"
        if complete
        else MISSING,
        place="Table II",
        ours=True,
    )
    answer, words = _masks(counted, masks)
    in_masks = said(
        "masks-have-counts",
        "Masks of real runs have N (1 − q) personal entries, rounded up",
        answer,
        words,
        place="Table II",
    )
    bound = select(evidence.published, metric="personalization_ratio_upper_bound")
    # masks have whole entries, so one entry above the share is no exception
    ours, theirs = (
        all(side[setting] - 1 < stated(bound) / 100 * sizes[setting] for setting in settings)
        if complete
        else None
        for side in (counted, printed)
    )
    share = said(
        "share-below-half",
        "Fewer than 0.5 % of the parameters are personal, but for the entry that rounding up adds",
        ours,
        _largest(counted, sizes) if complete else MISSING,
        place="Abstract",
        printed=theirs,
        sources=tuple(bound["source"]),
    )
    return rounding, in_masks, share, eighteen


MISSING = "the runs of the true models are missing"


def _masks(counted: Counts, masks: Counts) -> tuple[bool | None, str]:
    """Return whether masks have as many entries as were counted, but for ties, and how many do."""
    finished = {setting: value for setting, value in masks.items() if isfinite(value)}
    if len(finished) < len(counted):
        return None, f"{len(finished)} of {len(counted)} settings have run"
    gaps = [counted[setting] - value for setting, value in finished.items()]
    words = (
        f"{gaps.count(0)} of {len(gaps)} settings; at most {max(gaps):g} entries fewer, where"
        " scores tie at the quantile"
    )
    return all(0 <= gap <= 1 for gap in gaps), words


def _largest(counted: Counts, sizes: Counts) -> str:
    """Return the largest share in words."""
    top = max(counted, key=lambda setting: counted[setting] / sizes[setting])
    return (
        f"at most {100 * counted[top] / sizes[top]:.5f} %, on {top[0]} at Dir({top[1]}):"
        f" {counted[top]:.0f} of {sizes[top]:.0f}, 0.5 % to the entry (README, 15)"
    )
