"""At the paper's scale every grid runs what its paper says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from repfl.bench.grid.planned import Planned
from tests.paper_tables.planned import planned


@dataclass(frozen=True)
class Protocol:
    """Fields of a recipe or of a method's options, for some of a paper's cells."""

    paper: str
    of: Callable[[Planned], bool]
    fields: dict[str, Any]


def main(item: Planned) -> bool:
    """Whether a cell of FedOBP is of the tables themselves."""
    late = item.row.endswith(("momentum 0.7", "100 rounds"))
    return item.artefact in ("table3", "table4") and not late


def of_data(*names: str) -> Callable[[Planned], bool]:
    return lambda item: item.column in names


SGD = {"training.lr": 0.1, "training.momentum": 0.9, "training.epochs": 5, "training.batch": 100}
PURIN = {**SGD, "clients": 20, "evaluation.point": "pre_agg", "evaluation.rule": "max"}
DIRICHLET = {"partition.rule": "client-dirichlet", "partition.options.train": 500}
STAR = {"training.lr": 0.01, "training.epochs": 10, "training.batch": 32, "training.momentum": 0}
PROTOCOLS = (
    Protocol(
        "fedobp",
        main,
        {
            "training.rounds": 400,
            "training.epochs": 5,
            "training.batch": 32,
            "training.lr": 0.01,
            "training.momentum": 0.0,
            "clients": 100,
            "participation": 0.1,
            "sampling": "flbench",
            "partition.seed": 42,
        },
    ),
    Protocol(
        "fedpurin",
        of_data("fmnist-dir1.0"),
        {**PURIN, **DIRICHLET, "training.rounds": 200, "partition.options.alpha": 1.0},
    ),
    Protocol(
        "fedpurin",
        of_data("cifar100-dir0.01"),
        {**PURIN, **DIRICHLET, "training.rounds": 300, "partition.options.alpha": 0.01},
    ),
    Protocol(
        "fedselect",
        of_data("cifar10", "cifar10c", "mini"),
        {
            "training.rounds": 200,
            "training.epochs": 3,
            "training.batch": 32,
            "training.lr": 0.05,
            "training.momentum": 0.0,
            "model": "resnet18",
            "participation": 1.0,
            "evaluation.rule": "last",
        },
    ),
    Protocol("fedselect", of_data("office"), {"training.rounds": 50, "training.epochs": 3}),
    Protocol(
        "pfeddst",
        of_data("cifar10", "cifar100"),
        {
            "model": "resnet18-gn",
            "clients": 100,
            "participation": 0.1,
            "augment": "crop-flip",
            "training.rounds": 500,
            "training.epochs": 5,
            "training.batch": 128,
            "training.lr_decay": 0.995,
            "training.weight_decay": 0.0005,
        },
    ),
    Protocol(
        "star-pfl",
        lambda item: item.column != "billing" and "single" not in item.column,
        {
            **STAR,
            "training.rounds": 400,
            "training.weight_decay": 0,
            "model": "lenet5",
            "clients": 20,
            "partition.rule": "pairwise-dirichlet",
            "partition.seed": 5,
            "evaluation.point": "pre_agg",
            "evaluation.rule": "max",
        },
    ),
    Protocol(
        "star-pfl",
        lambda item: item.row == "Star-PFL",
        {
            "hp.server_threshold": 0.1,
            "hp.client_threshold": 0.1,
            "hp.server_record": 10,
            "hp.client_record": 5,
        },
    ),
)


def field(item: Planned, name: str) -> Any:
    """A field of a cell, by its path."""
    found: Any = {"hp": item.cell.hp} if name.startswith("hp.") else item.cell.recipe
    for part in name.split("."):
        found = found[part]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.paper)
def test_the_paper_scale_is_the_protocol(protocol: Protocol) -> None:
    cells = [item for item in planned(protocol.paper, "paper") if protocol.of(item)]
    assert cells
    for name, value in protocol.fields.items():
        assert {field(item, name) for item in cells} == {value}, name
