"""Table 2: accuracy, rounds to reach levels of it, and bytes. The paper's own table is lost; the
text says what it was for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.evidence import Evidence, folded, pick
from repfl.paper_tables.core.our_numbers import Value
from repfl.paper_tables.core.published import select
from repfl.paper_tables.core.result import CELL_FIELDS, Claim, Column, Table
from repfl.paper_tables.core.tables import Row
from repfl.paper_tables.pfeddst.settings import (
    DATASETS,
    FOLDER,
    METHODS,
    OURS,
    PAPER,
    PRINTING,
    ROWS,
    TARGETS,
    scale_note,
)

MB = 1e6
NOTES = (
    (
        "The text refers to a Table 2 with “learning curves illustrating the convergence speeds”;"
        " no version of the paper at hand has it (README, 11). The levels and the mean over all"
        " rounds are ours."
    ),
    (
        "The paper prints two accuracies and does not say whether they are of the last or the best"
        " round: they stand in the column of the last (README, 10). CIFAR-100's is DFedPGP's;"
        " PFedDST's own is never given (README, 2)."
    ),
    (
        "Bytes: everything a client receives in a round, averaged over all clients, from the"
        " ledger. PFedDST's are extractors of the chosen peers, everybody's header, and the models"
        " that peers send to have their loss taken (README, 13)."
    ),
    (
        "Methods with a server train a tenth of the clients per round, the others all of them"
        " (README, 3); figures 3 and 4 also show accuracy against client-epochs."
    ),
    (
        "FedBABU and FedAvg + FT are scored after five epochs of fine-tuning on copies, in few"
        " rounds (README, 14): their means over rounds and rounds to a level say more about the"
        " fine-tuning than about the federation."
    ),
    "Mixed models are scored between gossip and training, where the code of DFedPGP scores.",
)


def curve_of(rounds: pd.DataFrame) -> pd.Series:
    """The accuracy in percent, by round."""
    return 100 * rounds[rounds["name"] == "post_agg/mean"].set_index("round")["value"].sort_index()


def mean_over_rounds(_: pd.Series, rounds: pd.DataFrame) -> float:
    """Area under the curve, which is drawn straight between scored rounds."""
    curve = curve_of(rounds)
    if curve.empty:
        return nan
    steps = np.arange(1, int(curve.index.max()) + 1)
    return float(np.interp(steps, curve.index.to_numpy(dtype=float), curve.to_numpy()).mean())


def first_at(level: float) -> Value:
    """The first scored round at or above a level; none where a run never gets there."""

    def first(_: pd.Series, rounds: pd.DataFrame) -> float:
        curve = curve_of(rounds)
        reached = curve.index[curve >= level]
        return float(reached[0]) if len(reached) else nan

    return first


def received(cell: pd.Series, rounds: pd.DataFrame) -> float:
    """MB that a client receives in a round, on average over clients and rounds."""
    sent = our_numbers.per_round(rounds, "down_values", "down_codes")
    return float(sent.mean()) / int(cell["recipe.clients"]) / MB


CURVES = ("post_agg/mean", "traffic/down_values", "traffic/down_codes")
ACCURACIES = {Column("last", "last round"): None, Column("best", "best round"): "max"}
"""Columns of a data set out of the records, and their rules."""


def quantities(short: str) -> dict[Column, Value]:
    """Return the columns of a data set that are read off curves."""
    levels = {
        Column(f"r{level}", f"rounds to {level} %", "", "rounds", 0, "low"): first_at(level)
        for level in TARGETS[short]
    }
    return {
        Column("area", "mean over rounds"): mean_over_rounds,
        **levels,
        Column("mb", "MB per client and round", "", "MB", 3, None): received,
    }


COLUMNS = tuple(
    replace(column, key=f"{short}/{column.key}", group=name)
    for short, name in DATASETS.items()
    for column in (*ACCURACIES, *quantities(short))
)


def table2(evidence: Evidence) -> Table:
    """Seven methods on two data sets, and how what is open in the paper matters."""
    evidence = folded(evidence, "-p2", "-p3", "-500")  # other decay rates, and more rounds
    rows = tables.with_further_rows(ROWS, evidence)
    cells = [cell for row in rows for short in DATASETS for cell in _cells(evidence, row, short)]
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    return forms.table(
        evidence,
        (PAPER, "table2"),
        "Table 2: accuracy and speed of convergence",
        "Personalised accuracy, the rounds that it takes, and what clients receive.",
        rows=rows,
        columns=COLUMNS,
        frame=frame,
        scored=frame[frame["column"].str.endswith("/last")],
        compared=True,
        notes=(*NOTES, *scale_note(evidence)),
        claims=lambda frame: claims(evidence, frame),
    )


def _cells(evidence: Evidence, row: Row, short: str) -> Iterator[dict[str, Any]]:
    """Yield the table cells of one row on one data set."""
    planned = pick(evidence, row=row.source or row.label, column=short)
    metric = {"metric": "personalized_test_accuracy", "dataset": DATASETS[short]}
    reported = select(evidence.published, method=row.printed, **metric)
    if planned.empty and reported.empty:
        return
    sides = {
        column.key: our_numbers.measure(evidence, planned, row.point, rule)
        for column, rule in ACCURACIES.items()
    }
    if not row.point:
        values = {column.key: value for column, value in quantities(short).items()}
        done = int((planned["status"] == "done").sum())
        for name, ours in our_numbers.from_rounds(evidence, planned, values, *CURVES).items():
            some = f"reached in {ours['seeds']} of {done} runs"
            sides[name] = ours | ({"reason": some} if 0 < ours["seeds"] < done else {})
    units = {column.key: column.unit for column in COLUMNS}
    for name, ours in sides.items():
        key, published = f"{short}/{name}", reported.iloc[0] if len(reported) else None
        printed = tables.printed_fields(published if name == "last" else None)
        cell = {"row": row.label, "column": key, **printed, **ours}
        yield tables.conclude(cell, units[key], printing=PRINTING)


# -- sentences -------------------------------------------------------------------------------------


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Sections III-A and III-B, the abstract and the conclusion."""
    main = evidence.cells[
        evidence.cells["row"].isin(METHODS) & evidence.cells["column"].isin(DATASETS)
    ]
    own = main[main["row"] == OURS].assign(extractor=lambda cells: cells["recipe.training.epochs"])
    main = main.assign(decay=(1 - main["recipe.training.lr_decay"].astype(float)).round(9))
    rows = select(evidence.published, table="text III-A", dataset="CIFAR-10;CIFAR-100")
    stated = [
        shared_claims.protocol(evidence, main if of_all else own, (name, text, "III-A"), used, rows)
        for name, text, of_all, used in SETTINGS
    ]
    return (*stated, *judge_all(evidence, FOLDER, "table2", frame))


SETTINGS = (
    (
        "size",
        "500 rounds, 100 clients, a tenth of them per round with a server",
        True,
        {
            "rounds": "recipe.training.rounds",
            "clients": "recipe.clients",
            "client_sampling_ratio": "recipe.participation",
        },
    ),
    ("peers-per-round", "A client chooses 10 peers", False, {"neighbours_per_client": "hp.degree"}),
    (
        "training",
        "Batch 128, SGD at 0.1 with momentum 0.9, decay rate 0.005",
        True,
        {
            "batch_size": "recipe.training.batch",
            "learning_rate": "recipe.training.lr",
            "local_momentum": "recipe.training.momentum",
            "decay_rate": "decay",
        },
    ),
    (
        "epochs",
        "The extractor trains 5 epochs, as long as other methods train in all, the header one",
        False,
        {"extractor_epochs": "extractor", "header_epochs": "hp.head_epochs"},
    ),
)
"""Sentences on the protocol: name, words, of all methods or of PFedDST, and the fields."""
