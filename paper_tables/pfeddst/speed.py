"""Table 2: accuracy, rounds to reach levels of it, and bytes. The paper's own table is lost; the
text says what it was for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core import ranking, tables
from repfl.paper_tables.core.accuracy import accuracy_table
from repfl.paper_tables.core.claims import best, sentence
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.published import told
from repfl.paper_tables.core.result import CELL_FIELDS, Claim, Column, Table
from repfl.paper_tables.core.tables import Row
from repfl.paper_tables.pfeddst.settings import (
    DATASETS,
    METHODS,
    OURS,
    PAPER,
    PRINTING,
    RIVAL,
    ROWS,
    TARGETS,
    protocol,
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
Curve = Callable[[pd.Series, pd.DataFrame], float]
"""From a finished cell and its curves to a number."""


@dataclass(frozen=True)
class Quantity:
    """One column of each data set."""

    name: str
    label: str
    unit: str
    digits: int
    best: Any
    curve: Curve | None = None
    """None: an accuracy out of the record."""
    rule: str | None = None


def curve_of(rounds: pd.DataFrame, name: str = "post_agg/mean") -> pd.Series:
    """One curve in percent, by round."""
    return 100 * rounds[rounds["name"] == name].set_index("round")["value"].sort_index()


def mean_over_rounds(_: pd.Series, rounds: pd.DataFrame) -> float:
    """Area under the curve, which is drawn straight between scored rounds."""
    curve = curve_of(rounds)
    if curve.empty:
        return nan
    steps = np.arange(1, int(curve.index.max()) + 1)
    return float(np.interp(steps, curve.index.to_numpy(dtype=float), curve.to_numpy()).mean())


def first_at(level: float) -> Curve:
    """The first scored round at or above a level; none where a run never gets there."""

    def first(_: pd.Series, rounds: pd.DataFrame) -> float:
        curve = curve_of(rounds)
        reached = curve.index[curve >= level]
        return float(reached[0]) if len(reached) else nan

    return first


def received(cell: pd.Series, rounds: pd.DataFrame) -> float:
    """MB that a client receives in a round, on average over clients and rounds."""
    kept = rounds[rounds["name"].isin(["traffic/down_values", "traffic/down_codes"])]
    return float(kept.groupby("round")["value"].sum().mean()) / int(cell["recipe.clients"]) / MB


def quantities(short: str) -> tuple[Quantity, ...]:
    """The columns of a data set."""
    levels = (
        Quantity(f"r{level}", f"rounds to {level} %", "rounds", 0, "low", first_at(level))
        for level in TARGETS[short]
    )
    return (
        Quantity("last", "last round", "%", 2, "high"),
        Quantity("best", "best round", "%", 2, "high", rule="max"),
        Quantity("area", "mean over rounds", "%", 2, "high", mean_over_rounds),
        *levels,
        Quantity("mb", "MB per client and round", "MB", 3, None, received),
    )


COLUMNS = tuple(
    Column(f"{s}/{q.name}", q.label, name, q.unit, q.digits, q.best)
    for s, name in DATASETS.items()
    for q in quantities(s)
)


CURVES = ("post_agg/mean", "traffic/down_values", "traffic/down_codes")


@dataclass
class Runs:
    """The curves of an artefact's cells, each read once."""

    evidence: Evidence
    _known: dict[str, pd.DataFrame] = field(default_factory=dict)

    def of(self, cell: str) -> pd.DataFrame:
        """One cell's curves."""
        if not self._known:
            ids = list(tables.done_ids(self.evidence))
            self._known = (
                {str(key): rows for key, rows in self.evidence.rounds(ids, *CURVES).groupby("id")}
                if ids
                else {}
            )
        return self._known.get(cell, pd.DataFrame(columns=["id", "round", "name", "value"]))


def table2(evidence: Evidence) -> Table:
    """Seven methods on two data sets, and how what is open in the paper matters."""
    rows, runs = tables.with_guests(ROWS, evidence), Runs(evidence)
    cells = [
        cell
        for row in rows
        for short in DATASETS
        if not row.only or short in row.only
        for cell in _cells(evidence, runs, row, short)
    ]
    frame = pd.DataFrame(cells, columns=list(CELL_FIELDS))
    made = accuracy_table(
        evidence,
        (PAPER, "table2"),
        "Table 2: accuracy and speed of convergence",
        "Personalised accuracy, the rounds that it takes, and what clients receive.",
        (frame, rows, COLUMNS),
        against=OURS,
        notes=(*NOTES, *scale_note(evidence.scale)),
        claims=claims(evidence, frame),
    )
    return replace(made, summary=_summary(evidence, frame, rows))


def _cells(evidence: Evidence, runs: Runs, row: Row, short: str) -> list[dict[str, Any]]:
    """One row on one data set."""
    planned = pick(evidence, row=row.source or row.label, column=row.recipes.get(short, short))
    found_rows = told(
        evidence.published,
        metric="personalized_test_accuracy",
        dataset=DATASETS[short],
        method=row.printed,
    )
    printed = found_rows.iloc[0] if len(found_rows) else None
    if planned.empty and printed is None:
        return []
    cells = []
    for quantity in quantities(short):
        if row.point and quantity.curve:
            continue
        found = printed if quantity.name == "last" else None
        if quantity.curve:
            ours = _from_curves(planned, evidence.scale, runs, quantity.curve)
        else:
            ours = tables.measure(evidence, planned, row.point, quantity.rule)
        cell = {
            "row": row.label,
            "column": f"{short}/{quantity.name}",
            **tables.printed_fields(found),
            **ours,
        }
        cells.append(tables.conclude(cell, quantity.unit, printing=PRINTING))
    return cells


def _from_curves(planned: pd.DataFrame, scale: str, runs: Runs, curve: Curve) -> dict[str, Any]:
    """A quantity that is read off the stored curves."""
    done = planned[planned["status"] == "done"]
    found = tables.gather(
        planned, scale, [curve(cell, runs.of(str(cell["id"]))) for _, cell in done.iterrows()]
    )
    short = 0 < found["seeds"] < len(done)
    return found | ({"reason": f"reached in {found['seeds']} of {len(done)} runs"} if short else {})


def _summary(evidence: Evidence, frame: pd.DataFrame, rows: tuple[Row, ...]) -> pd.DataFrame:
    """Statistics over the accuracies of the last round."""
    last = frame[
        frame["column"].str.endswith("/last")
        & ~frame["row"].isin([row.label for row in rows if row.aside])
    ]
    return ranking.summary(evidence, last, [row for row in rows if not row.aside], against=OURS)


# -- sentences -------------------------------------------------------------------------------------


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Sections III-A and III-B, the abstract and the conclusion."""
    main = evidence.cells[
        evidence.cells["row"].isin(METHODS) & evidence.cells["column"].isin(DATASETS)
    ]
    own = main[main["row"] == OURS].assign(extractor=lambda cells: cells["recipe.training.epochs"])
    both = {"table": "text III-A", "dataset": "CIFAR-10;CIFAR-100"}
    epochs = {"extractor_epochs": "extractor", "header_epochs": "hp.head_epochs"}
    return (
        protocol(
            evidence,
            main,
            "size",
            "500 rounds, 100 clients, a tenth of them per round with a server",
            _size(),
            **both,
        ),
        protocol(
            evidence,
            own,
            "peers-per-round",
            "A client chooses 10 peers",
            {"neighbours_per_client": "hp.degree"},
            **both,
        ),
        protocol(
            evidence,
            main,
            "training",
            "Batch 128, SGD at 0.1 with momentum 0.9, decay rate 0.005",
            _training(),
            **both,
        ),
        protocol(
            evidence,
            own,
            "epochs",
            "The extractor trains 5 epochs, as long as other methods train in all, the header one",
            epochs,
            **both,
        ),
        *ranked(_known(evidence, frame), evidence.scale),
    )


def _size() -> dict[str, str]:
    return {
        "rounds": "recipe.training.rounds",
        "clients": "recipe.clients",
        "client_sampling_ratio": "recipe.participation",
    }


def _training() -> dict[str, str]:
    training = {"batch_size": "batch", "learning_rate": "lr", "local_momentum": "momentum"}
    return {metric: f"recipe.training.{name}" for metric, name in training.items()} | {
        "decay_rate": "1 - recipe.training.lr_decay"
    }


def _known(evidence: Evidence, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a place for every method and column, so that what is not planned at a scale
    is missing and no mistake.
    """
    places = pd.MultiIndex.from_product([METHODS, [c.key for c in COLUMNS]])
    return (
        frame.set_index(["row", "column"])
        .reindex(places)
        .rename_axis(["row", "column"])
        .reset_index()
    )


def ranked(frame: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Who takes which place on both data sets."""

    def place(name: str, text: str, row: str, quantity: str, others: list[str]) -> Claim:
        condition = best(row, others, [f"{short}/{quantity}" for short in DATASETS])
        return sentence(frame, name, text, condition, scale=scale, print_=False)

    rivals = [row for row in METHODS if row != OURS]
    return (
        place(
            "fastest",
            "PFedDST has the fastest convergence (highest mean over rounds)",
            OURS,
            "area",
            rivals,
        ),
        place(
            "dfedpgp-next-fastest",
            "DFedPGP converges faster than all others but PFedDST",
            RIVAL,
            "area",
            [row for row in rivals if row != RIVAL],
        ),
        place(
            "outperforms",
            "PFedDST outperforms state-of-the-art methods (abstract, conclusion)",
            OURS,
            "last",
            rivals,
        ),
    )
