"""Table 3: bytes and operations per round, and rounds to convergence, at α = 0.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.drawing.captions import kind_of_run
from repfl.paper_tables.core.evidence import Evidence, folded, pick, setting
from repfl.paper_tables.core.our_numbers import Value
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Table
from repfl.paper_tables.core.statistics.verdict import Kind
from repfl.paper_tables.core.tables import Row
from repfl.paper_tables.star_pfl import savings
from repfl.paper_tables.star_pfl.settings import (
    CLIENTS,
    HALF,
    KEYS,
    LOCAL,
    METHODS,
    PAPER,
    PLACES,
    PRINTING,
    STAND_IN,
    TASKS,
    scale_note,
)

MIB = 2**20
MACS = {
    "conv1.weight": 86_400,
    "conv2.weight": 153_600,
    "fc1.weight": 30_720,
    "fc2.weight": 10_080,
    "fc3.weight": 924,
}
"""Multiplications per image in the forward pass of LeNet-5 on 28x28 images with 11 classes."""
SAMPLES = {"axial": 1761.45, "sagittal": 752.65}
"""Training images of a client at α = 0.1: the mean over the 20 clients of the published split."""
EPOCHS = 10
FREEZING = ("lotteryfl", "star-pfl")
"""Methods that train fewer weights than there are; their runs note how many."""
CONVERGED = 0.99
"""A run has converged in the first round that reaches this share of its own best mean accuracy."""
ELEMENTWISE = (
    "the paper does not say which operations it counts: ours are the multiplications and additions"
    " of layers, without biases, normalisation, activations and updates, and come to 0.9 % less"
)

MODEL, BILLING, CURVE = "lenet5", "billing", "pre_agg/mean"
CLOSED = {"comm": ("FedAvg", "FedBN", "FedAP"), "flops": (LOCAL, "FedAvg", "FedBN", "FedAP")}
"""The rows of a quantity that follow from sizes alone."""


def wire(direction: str, *, clients: int = 1, codes: bool = True) -> Callable[[str], Value]:
    """Return how many MiB so many clients send or receive in a round, by default with masks.

    FedAP's preparation, in round 1, is no part of a round.
    """
    lines = [f"{direction}_values", *([f"{direction}_codes"] if codes else [])]

    def mean(cell: pd.Series, rounds: pd.DataFrame) -> float:
        if cell["method"] == "local":
            return nan
        sent = our_numbers.per_round(rounds, *lines)
        if cell["method"] == "fedap" and len(sent) > 1:
            sent = sent[sent.index > 1]
        return clients * float(sent.mean()) / int(cell["recipe.clients"]) / MIB

    return lambda _: mean


def operations(task: str) -> Value:
    """Return 1e10 operations of one client's training in a round of the paper's size.

    Two per multiplication, in the forward pass, for the inputs' gradients and for the gradients of
    those weights that train.
    """

    def count(cell: pd.Series, rounds: pd.DataFrame) -> float:
        notes = rounds[rounds["name"].str.startswith("note/active/")]
        shares = notes.groupby("name")["value"].mean()
        if cell["method"] in FREEZING and shares.empty:
            return nan
        trained = sum(
            work * float(shares.get(f"note/active/{name}", 1.0)) for name, work in MACS.items()
        )
        return 2 * (2 * sum(MACS.values()) + trained) * SAMPLES[task] * EPOCHS / 1e10

    return count


def first_at(share: float) -> Callable[[str], Value]:
    """Return the first round whose accuracy reaches a share of the run's best."""

    def first(_: pd.Series, rounds: pd.DataFrame) -> float:
        curve = rounds[rounds["name"] == CURVE].set_index("round")["value"].sort_index()
        return float(curve.index[curve >= share * curve.max()][0]) if len(curve) else nan

    return lambda _: first


UPLINK = wire("up", clients=CLIENTS, codes=False)
"""What 20 clients upload in a round, values only: the paper's convention."""
QUANTITIES: dict[Column, Callable[[str], Value]] = {
    Column("comm", "Comm (MiB, 20 clients)", "", "MiB", 3, "low"): UPLINK,
    Column("flops", "FLOPs (1e10)", "", "1e10 FLOPs", 3, "low"): operations,
    Column("rounds", "Round", "", "rounds", 0, "low"): first_at(CONVERGED),
    Column("up", "one client ↑, on the wire", "", "MiB", 3, None): wire("up"),
    Column("down", "one client ↓, on the wire", "", "MiB", 3, None): wire("down"),
    Column("best", "Round of the best", "", "rounds", 0, None): first_at(1.0),
}
"""The columns of each task."""
METRICS = {
    "comm": "comm_per_round",
    "flops": "local_training_flops_per_round",
    "rounds": "rounds_to_convergence",
}
"""The published metrics; the paper has no other column."""
COLUMNS = tuple(
    replace(column, key=f"{task}/{column.key}", group=name)
    for task, name in TASKS.items()
    for column in QUANTITIES
)
FEDAP_SLIP = (
    "the paper prints FedAvg's bytes for FedAP and does not say what its FedAP sends; by FedAP's"
    " own paper its normalisation layers never leave a client, and ours uploads what FedBN uploads"
    " (README, 22)"
)
SAGITTAL_SLIP = (
    "as large as Axial's in the paper, {}; a Sagittal client has 752.65 training images, not"
    " 1,761.45 (README, 15)"
)
MOVED = ("LotteryFL", "Star-PFL")
"""Rows whose printed operations differ between the tasks, by 0.9 %."""
NOTES = (
    (
        "Comm: the paper calls it the average of each client and writes MB. Its FedAvg and FedBN"
        " values equal the sum over the 20 clients in MiB (2^20 bytes), upload only, BN statistics"
        " included, masks not; that this is what it counts is inferred (README, 14). So counted"
        " here; the wire columns are per client, with masks."
    ),
    (
        "FLOPs: two operations per multiplication of LeNet-5 (281,724 per image), forward, back to"
        " the inputs, and for the weights that train; the paper's 1,761.45 or 752.65 images and 10"
        " epochs at every scale, the shares of trained weights from our runs. Element-wise work,"
        " about 1 % (the paper's 3.005 against 2.977), is not counted, nor is FedAP's pretrained"
        " model. Freezing saves nothing in the forward pass."
    ),
    (
        "Round: the paper names no criterion (README, 16). Ours: the first round that reaches"
        f" {CONVERGED:.0%} of the run's best mean accuracy before aggregation; the round of the"
        " best stands beside it."
    ),
)


def table3(evidence: Evidence) -> Table:
    """What a round costs, and how many there are."""
    evidence = folded(evidence, "-400")
    rows = tables.with_further_rows([Row(name) for name in METHODS], evidence)
    cells = [
        cell
        for row in rows
        for task in TASKS
        for of_rounds in (False, True)
        for cell in _cells(evidence, row.label, task, of_rounds)
    ]
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    main = evidence.cells[evidence.cells["column"] != BILLING]
    return forms.table(
        evidence,
        (PAPER, "table3"),
        "Table 3: resource consumption at α = 0.1",
        "",
        rows=rows,
        columns=COLUMNS,
        frame=frame,
        notes=(*NOTES, *scale_note(evidence), *savings.totals(frame, evidence.scale)),
        claims=lambda frame: savings.claims(evidence, frame),
        caption=(
            "Costs of six methods per round, averaged over rounds and seeds."
            f" {kind_of_run(evidence.scale)}: {setting(main)}."
            " Comm of FedAvg, FedBN and FedAP is closed-form, and held to the printed digits at"
            " every scale. FLOPs of the methods that train all weights are a count at the paper's"
            " sizes; it leaves out element-wise work, and the paper does not say what it counts."
        ),
        floor=False,
    )


def _cells(evidence: Evidence, row: str, task: str, of_rounds: bool) -> Iterator[dict[str, Any]]:
    """Yield one method's numbers: those that depend on the model and hardly on the images, so that
    billing runs can tell them, or numbers of rounds.
    """
    cells, whence = _source(evidence, row, task, not of_rounds)
    shown = {c.key: c for c in QUANTITIES if (c.unit == "rounds") == of_rounds}
    values = {key: QUANTITIES[column](task) for key, column in shown.items()}
    names = (CURVE, "note/active/", "traffic/")
    sides = our_numbers.from_rounds(evidence, cells, values, *names)
    for key, column in shown.items():
        place = tables.Place(PLACES[KEYS[task, "0.1"]].dataset, "alpha=0.1", METRICS.get(key, ""))
        rows = evidence.published
        published = tables.published_row(rows, "3", place, row) if key in METRICS else None
        exact, slip = row in CLOSED.get(key, ()), _slip(row, task, key)
        cell = {"row": row, "column": f"{task}/{key}", **tables.printed_fields(published)}
        cell = tables.conclude(
            cell | sides[key],
            column.unit,
            Kind.CLOSED if exact else Kind.COST,
            rounding=HALF,
            printing=PRINTING,
            why_incomparable=slip if slip in (ELEMENTWISE, FEDAP_SLIP) and exact else "",
        )
        remarks = (cell["reason"], slip, whence)
        yield cell | {"reason": "; ".join(filter(None, remarks))}


def _source(evidence: Evidence, row: str, task: str, of_model: bool) -> tuple[pd.DataFrame, str]:
    """The cells a number is read from: the task's own; where those are not done or of another
    model, the stand-in's or billing runs.

    What a method saves grows with its rounds: of a method that freezes, billing runs say nothing
    that the paper scale could judge.
    """
    own = pick(evidence, row=row, column=KEYS[task, "0.1"])
    choices = {"": own, "measured on the stand-in": pick(evidence, row=row, column=STAND_IN)}
    if of_model and not (evidence.scale == "paper" and own["method"].isin(FREEZING).any()):
        choices["billing run on embedded images"] = pick(evidence, row=row, column=BILLING)
    for whence, cells in choices.items():
        right = cells["recipe.model"] == MODEL if of_model else cells["status"] == "done"
        if (right & (cells["status"] == "done")).any():
            return cells, whence
    return own, ""


def _slip(row: str, task: str, quantity: str) -> str:
    if quantity == "comm" and row == "FedAP":
        return FEDAP_SLIP
    if quantity == "comm" and row == LOCAL:
        return "nothing is sent"
    if quantity != "flops" or row not in METHODS:
        return ""
    how = "within 0.9 %" if row in MOVED else "to the last digit"
    return SAGITTAL_SLIP.format(how) if task == "sagittal" else ELEMENTWISE
