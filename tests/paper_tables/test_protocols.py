"""At the paper's scale every grid runs what its paper says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from repfl.bench.grid.planned import Planned
from tests.paper_tables.planned import planned


class Protocol(NamedTuple):
    """Fields of the recipes, and of the methods' options, of some of a paper's cells."""

    paper: str
    of: Callable[[Planned], bool]
    fields: dict[str, Any]


def main(item: Planned) -> bool:
    """Whether a cell of FedOBP is of the tables themselves."""
    late = item.row.endswith(("momentum 0.7", "100 rounds"))
    return item.artefact in ("table3", "table4") and not late


def of_data(*names: str) -> Callable[[Planned], bool]:
    return lambda item: item.column in names


def unbilled(item: Planned) -> bool:
    return item.column != "billing" and "single" not in item.column


def purin(rounds: int, alpha: float) -> dict[str, Any]:
    """FedPURIN's protocol with what depends on the data."""
    steps = {"lr": 0.1, "momentum": 0.9, "epochs": 5, "batch": 100, "rounds": rounds}
    options = {"train": 500, "alpha": alpha}
    return {
        "training": steps,
        "clients": 20,
        "partition": {"rule": "client-dirichlet", "options": options},
        "evaluation": {"point": "pre_agg", "rule": "max"},
    }


FEDOBP = {
    "training": {"rounds": 400, "epochs": 5, "batch": 32, "lr": 0.01, "momentum": 0.0},
    "clients": 100,
    "participation": 0.1,
    "sampling": "flbench",
    "partition": {"seed": 42},
}
SELECT = {
    "training": {"rounds": 200, "epochs": 3, "batch": 32, "lr": 0.05, "momentum": 0.0},
    "model": "resnet18",
    "participation": 1.0,
    "evaluation": {"rule": "last"},
}
DECAY = {"lr_decay": 0.995}
PFEDDST = {
    "training": {"rounds": 500, "epochs": 5, "batch": 128, "weight_decay": 0.0005} | DECAY,
    "model": "resnet18-gn",
    "clients": 100,
    "participation": 0.1,
    "augment": "crop-flip",
}
PLAIN = {"momentum": 0, "weight_decay": 0}
STAR = {
    "training": {"rounds": 400, "epochs": 10, "batch": 32, "lr": 0.01} | PLAIN,
    "model": "lenet5",
    "clients": 20,
    "partition": {"rule": "pairwise-dirichlet", "seed": 5},
    "evaluation": {"point": "pre_agg", "rule": "max"},
}
THRESHOLDS = {"server_threshold": 0.1, "client_threshold": 0.1}
RECORDS = {"server_record": 10, "client_record": 5}
PROTOCOLS = (
    Protocol("fedobp", main, FEDOBP),
    Protocol("fedpurin", of_data("fmnist-dir1.0"), purin(200, 1.0)),
    Protocol("fedpurin", of_data("cifar100-dir0.01"), purin(300, 0.01)),
    Protocol("fedselect", of_data("cifar10", "cifar10c", "mini"), SELECT),
    Protocol("fedselect", of_data("office"), {"training": {"rounds": 30, "epochs": 3}}),
    Protocol("pfeddst", of_data("cifar10", "cifar100"), PFEDDST),
    Protocol("star-pfl", unbilled, STAR),
    Protocol("star-pfl", lambda item: item.row == "Star-PFL", {"hp": THRESHOLDS | RECORDS}),
)


def named(found: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is found under the names of these fields."""
    return {
        name: named(found[name], value) if isinstance(value, dict) else found[name]
        for name, value in fields.items()
    }


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.paper)
def test_the_paper_scale_is_the_protocol(protocol: Protocol) -> None:
    cells = [item.cell for item in planned(protocol.paper, "paper") if protocol.of(item)]
    assert cells
    for cell in cells:
        said = {**cell.json["recipe"], "hp": cell.json["hp"]}
        assert named(said, protocol.fields) == protocol.fields
