"""Table 3: bytes per client and round, from the ledger of real runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.claims.sentences import all_met, in_words, judge_all
from repfl.paper_tables.core.drawing.captions import kind_of_run
from repfl.paper_tables.core.evidence import Evidence, pick, seed_count, setting
from repfl.paper_tables.core.published import select
from repfl.paper_tables.core.result import CELL_FIELDS, Claim, Column, Table, claim
from repfl.paper_tables.core.statistics.verdict import Kind
from repfl.paper_tables.core.tables import Place, Row
from repfl.paper_tables.fedpurin.settings import DATASETS, FOLDER, OURS, PAPER, PRINTING

MIB = 2**20
RUNS = {"fmnist": "fmnist-dir0.1", "cifar10": "cifar10-dir0.1", "cifar100": "cifar100-dir0.1"}
PAPER_WAY, WIRE = "as the paper counts", "on the wire"
COLUMNS = tuple(
    Column(f"{short}/{way}", DATASETS[short], way, unit="MiB", best=None)
    for way in (PAPER_WAY, WIRE)
    for short in DATASETS
)
HALF = 0.005
"""How far two printed decimals round a number away."""


@dataclass(frozen=True)
class Line:
    """One row: a method, a direction and a phase."""

    method: str
    direction: str
    phase: str = "all_rounds"
    exact: float | None = None
    """For numbers that are computed exactly: the rounding of two printed decimals."""
    dead: bool = False
    """Whether on CIFAR-100 it depends on which weights ever get a gradient, hence on data."""

    @property
    def label(self) -> str:
        arrow = "↑" if self.direction == "up" else "↓"
        return (
            f"{self.method} {arrow}"
            + {"all_rounds": "", "pre_beta": ", t ≤ β", "post_beta": ", t > β"}[self.phase]
        )


LINES = (
    Line("FedAvg", "up", exact=HALF),
    Line("FedAvg", "down", exact=HALF),
    Line("FedCAC", "up", exact=HALF),
    Line("FedCAC", "down", "pre_beta", exact=HALF),
    Line("FedCAC", "down", "post_beta", exact=HALF, dead=True),
    *(
        Line(OURS, direction, phase)
        for direction in ("up", "down")
        for phase in ("pre_beta", "post_beta")
    ),
)
MASK_SLIP = (
    "The paper adds 0.15 MB of mask to every FedCAC uplink. That is the mask of a ResNet-8 (0.147"
    " MiB); a ResNet-10 has 0.591 MiB, as the paper's own FedPURIN row (6.28) has it."
)
SUM = (
    "The printed 4.84 fits a sum of two rounded numbers, 4.69 and 0.15; unrounded, 4.688 and 0.147"
    " are 4.835."
)
SLIPS = {("FedCAC ↑", f"cifar100/{PAPER_WAY}"): MASK_SLIP, ("FedCAC ↑", f"fmnist/{PAPER_WAY}"): SUM}
NOTES = (
    (
        "The paper writes MB; its FedAvg rows are MiB (2^20 bytes), so this table is in MiB. BN"
        " weights count, BN statistics never travel."
    ),
    (
        "As the paper counts: uplink values plus one bit of mask per element, downlink values only."
        " On the wire: values plus whatever code tells the receiver which positions they belong to."
    ),
    "FedCAC on CIFAR-100: " + MASK_SLIP,
    (
        "ResNet-10 on 32x32 images: the last stage sees a 1x1 map, so 8/9 of the taps of its second"
        " convolution and 5/9 of those of its first never meet data: 2,752,512 weights (55.5 % of"
        " the model) have zero gradient for every input and never become critical. About 20 of the"
        " 67 points of saving on CIFAR-100 come from there; without dead weights the cap of the"
        " uplink would be 10.03 MiB (46.9 %). Section 4.5 names the cause itself, perturbations"
        " that vanish in an “excessively large model”; this is its size. FedAvg could leave out"
        " these 10.5 MiB as well."
    ),
    (
        "The text's “at least 53.3 %” holds: Table 3 gives 55.9 % and 53.5 %. The figure itself"
        " comes out if CIFAR-10's volume is divided by Fashion-MNIST's FedAvg volume."
    ),
)


def table3(evidence: Evidence) -> Table:
    """Return Table 3: bytes of FedAvg, FedCAC and FedPURIN, before and after β."""
    lines = lines_of(evidence)
    cells = [cell for line in lines for short in DATASETS for cell in _cells(evidence, line, short)]
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    return forms.table(
        evidence,
        (PAPER, "table3"),
        "Table 3: bytes per client and round",
        "",
        rows=[Row(line.label) for line in lines],
        columns=COLUMNS,
        frame=frame,
        notes=NOTES,
        claims=lambda frame: (
            *claims(evidence, frame),
            *judge_all(evidence, FOLDER, "table3", frame),
            alignment(evidence),
        ),
        caption=(
            "MiB per client and round at α = 0.1, averaged over clients, rounds of the phase, and"
            " seeds, as billed by the messages of the runs."
            f" {kind_of_run(evidence.scale)}: {setting(evidence.cells)}. The rows of"
            " FedAvg and FedCAC are computed exactly, but for CIFAR-100 after β."
        ),
        floor=False,
    )


def lines_of(evidence: Evidence) -> tuple[Line, ...]:
    """Return the paper's rows, and two for every method that a user adds."""
    methods = {line.method for line in LINES}
    guests = [row for row in dict.fromkeys(evidence.cells["row"]) if row not in methods]
    return (*LINES, *(Line(guest, direction) for guest in guests for direction in ("up", "down")))


def _cells(evidence: Evidence, line: Line, short: str) -> Iterator[dict[str, Any]]:
    """Yield one line on one data set, counted both ways."""
    planned, billed = _source(evidence, line.method, short)
    values = {way: partial(_mib, line=line, way=way) for way in (PAPER_WAY, WIRE)}
    for way, ours in our_numbers.from_rounds(evidence, planned, values, "traffic/").items():
        column = f"{short}/{way}"
        published = _published(evidence, line, short) if way == PAPER_WAY else None
        cell = {"row": line.label, "column": column, **tables.printed_fields(published), **ours}
        closed = line.exact is not None and not (line.dead and short == "cifar100")
        if closed:
            cell = tables.conclude(cell, "MiB", Kind.CLOSED, rounding=line.exact or 0.0)
        else:
            cell = tables.conclude(cell, "MiB", Kind.COST, printing=PRINTING)
        slip = SLIPS.get((line.label, column), "")
        remarks = (cell["reason"], slip, "billing run on embedded images" if billed else "")
        yield cell | {"reason": "; ".join(filter(None, remarks))}


def _source(evidence: Evidence, method: str, short: str) -> tuple[pd.DataFrame, bool]:
    """Return the cells of a number, and whether they are the billing runs, used if the main runs
    are not planned or not done.
    """
    main = pick(evidence, row=method, column=RUNS[short])
    billing = pick(evidence, row=method, column=f"billing-{short}")
    if (main["status"] == "done").any() or billing.empty:
        return main, False
    return billing, True


def _published(evidence: Evidence, line: Line, short: str) -> pd.Series | None:
    location = Place(
        DATASETS[short],
        f"alpha=0.1;phase={line.phase}",
        f"{line.direction}link_per_client_per_round",
    )
    return tables.published_row(evidence.published, "3", location, line.method)


def _mib(cell: pd.Series, rounds: pd.DataFrame, line: Line, way: str) -> float:
    """Return the mean over the rounds of the phase."""
    names = [f"{line.direction}_values"]
    if line.direction == "up" or way == WIRE:
        names.append(f"{line.direction}_codes")
    sent = our_numbers.per_round(rounds, *names)
    if line.phase != "all_rounds":
        late = sent.index > int(cell["hp.beta"])
        sent = sent[late if line.phase == "post_beta" else ~late]
    return float(sent.mean()) / int(cell["recipe.clients"]) / MIB if len(sent) else nan


# -- the savings that the text states --------------------------------------------------------------

SIMPLE, HARD = ("fmnist", "cifar10"), ("cifar100",)
SPLITS = {"fmnist": (100, 200), "cifar10": (100, 200), "cifar100": (170, 300)}
Savings = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Saving:
    """A sentence on savings: directions, data sets, and the range of percentages."""

    metric: str
    text: str
    directions: tuple[str, ...]
    shorts: tuple[str, ...]
    low: float
    high: float = 100.0

    @property
    def cells(self) -> list[tuple[str, str]]:
        return [(direction, short) for direction in self.directions for short in self.shorts]


SAVINGS = (
    Saving(
        "uplink_reduction_lower_bound",
        "The uplink falls by at least 53.3 % on Fashion-MNIST and CIFAR-10",
        ("up",),
        SIMPLE,
        53.3,
    ),
    Saving(
        "downlink_reduction_lower_bound",
        "The downlink falls by at least 46.3 % on Fashion-MNIST and CIFAR-10",
        ("down",),
        SIMPLE,
        46.3,
    ),
    Saving("uplink_reduction", "The uplink falls by 67.0 % on CIFAR-100", ("up",), HARD, 66.95),
    Saving(
        "downlink_reduction", "The downlink falls by 72.6 % on CIFAR-100", ("down",), HARD, 72.55
    ),
    Saving(
        "overhead_reduction",
        "Overheads fall by 46 % to 73 %",
        ("up", "down"),
        tuple(SPLITS),
        45.5,
        73.5,
    ),
)


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of section 4.5 on volumes relative to FedAvg, weighted by the rounds before and
    after β. They depend on training, and on its length.
    """
    printed, ours = savings(frame, "printed"), savings(frame, "ours")
    real = {short for short in DATASETS if not _source(evidence, OURS, short)[1]}
    done = evidence.cells[evidence.cells["row"] == OURS].query("status == 'done'")
    seeds = f"seeds {', '.join(map(str, sorted(set(done['seed']))))}"
    result = []
    for saving in SAVINGS:
        source = tuple(select(evidence.published, metric=saving.metric)["source"])
        has_runs = real.issuperset(saving.shorts) and all(isfinite(ours[c]) for c in saving.cells)
        our_text = f"{_percentages(ours, saving)} ({seeds})"
        our_text = our_text if has_runs else "needs the full runs on real data"
        result.append(
            claim(
                saving.metric.replace("_", "-"),
                saving.text,
                _in_range(ours, saving) if has_runs else None,
                f"ours: {our_text}; reported: {_percentages(printed, saving)}",
                evidence.scale,
                place="4.5",
                printed=_in_range(printed, saving),
                seeds=seed_count(done),
                sources=source,
            )
        )
    return tuple(result)


def alignment(evidence: Evidence) -> Claim:
    """Return the claim of section 4.5 that after β the positions of the global model and of the
    clients become more alike, so that the downlink falls.
    """
    ratios = {}
    for short, name in DATASETS.items():
        done = pick(evidence, row=OURS, column=RUNS[short], done=True)
        seed_ratios = []
        for _, cell in done.iterrows():
            bytes_down = our_numbers.per_round(
                evidence.rounds([str(cell["id"])], "traffic/"), "down_values"
            )
            late = bytes_down[bytes_down.index > int(cell["hp.beta"])].to_numpy()
            half = len(late) // 2
            seed_ratios.append(float(late[half:].mean() / late[:half].mean()) if half else nan)
        ratios[name] = float(np.mean(seed_ratios)) if seed_ratios else nan
    return claim(
        "downlink-falls-after-beta",
        "After round β the downlink keeps falling, as the aggregated model's positions grow like"
        " the clients' critical ones",
        all_met(ratios, lambda ratio: ratio < 1),
        "bytes down, second half of the rounds after β over the first half: " + in_words(ratios),
        evidence.scale,
        place="4.5",
        seeds=seed_count(evidence.cells[evidence.cells["row"] == OURS]),
    )


def _in_range(savings: Savings, saving: Saving) -> bool:
    return all(saving.low <= savings[cell] < saving.high for cell in saving.cells)


def savings(frame: pd.DataFrame, side: str) -> Savings:
    """Return the percentages saved per (direction, data set), for the paper's rounds before β."""
    values = frame.set_index(["row", "column"])[side].astype(float)
    result = {}
    for short, (beta, rounds) in SPLITS.items():
        for direction in ("up", "down"):
            means = {
                phase: values[(Line(OURS, direction, phase).label, f"{short}/{PAPER_WAY}")]
                for phase in ("pre_beta", "post_beta")
            }
            mean = (beta * means["pre_beta"] + (rounds - beta) * means["post_beta"]) / rounds
            result[direction, short] = 100 * (
                1 - mean / values[(Line("FedAvg", direction).label, f"{short}/{PAPER_WAY}")]
            )
    return result


def _percentages(savings: Savings, saving: Saving) -> str:
    return ", ".join(
        f"{DATASETS[short]} {'↑' if direction == 'up' else '↓'} {savings[direction, short]:.1f} %"
        for direction, short in saving.cells
    )
