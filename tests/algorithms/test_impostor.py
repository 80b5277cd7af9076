"""The CUDA path on an impostor GPU: every method, in lanes and in a stack, computes what the
processor computes, and does nothing that a GPU would mind.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pytest

from repfl.algorithms.core.method import methods
from repfl.algorithms.core.run import Run
from tests.algorithms.impostor import budget, cases, estimate, planted
from tests.algorithms.impostor.cases import LATE, WAYS
from tests.algorithms.impostor.planted import FAULTS, Fault

EVERY = [(name, way) for name in sorted(methods()) for way in budget.SHORT]
every = pytest.mark.parametrize(("name", "way"), EVERY, ids=lambda value: str(value))


@cache
def computed(name: str) -> Run:
    return cases.computed(name)


@every
def test_a_gpu_computes_what_a_processor_computes(name: str, way: str) -> None:
    assert cases.differences(budget.once(name, way).run, computed(name)) == []


@every
def test_a_gpu_minds_nothing_that_a_method_does(name: str, way: str) -> None:
    found = budget.once(name, way)
    assert [str(finding) for finding in found.report.findings] == []
    assert found.run.fed.lanes is not None
    assert found.run.fed.lanes.refusals == set()


@every
def test_steps_are_recorded_in_the_first_two_rounds_and_then_played(name: str, way: str) -> None:
    report = budget.once(name, way).report
    assert report.total("captures") > 0
    assert report.total("captures", LATE) == 0
    assert report.total("replays", LATE) > 0


@every
def test_memory_does_not_grow_with_rounds(name: str, way: str) -> None:
    alive = budget.once(name, way).report.alive
    assert alive[LATE] <= alive[LATE - 1]


@every
def test_the_host_waits_and_copies_as_often_as_the_table_says(name: str, way: str) -> None:
    assert budget.counted(budget.once(name, way)) == budget.held()[name, way], (
        "python -m tests.algorithms.impostor.budget counts anew"
    )


def test_the_table_has_a_row_for_every_method() -> None:
    assert sorted(budget.held()) == sorted(EVERY)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_planted_fault_is_seen(fault: Fault) -> None:
    protocol = {"lr_decay": 0.5}
    wanted = cases.computed("fedavg", **protocol)
    found = cases.seen("fedavg", fault=fault.planted, **WAYS["lanes"], **protocol)
    assert fault.kind in cases.faults(found, wanted)


def test_a_failed_capture_must_close_its_pool() -> None:
    found = cases.seen("fedavg", fault=planted.untidy, **WAYS["lanes"])
    assert {"refused", "capture"} <= cases.faults(found)


def test_without_a_fault_nothing_is_seen() -> None:
    protocol = {"lr_decay": 0.5}
    found = cases.seen("fedavg", **WAYS["lanes"], **protocol)
    assert cases.faults(found, cases.computed("fedavg", **protocol)) == set()


def test_a_step_of_the_papers_model_is_few_kernels_in_few_graphs() -> None:
    report = estimate.counted(clients=2, cohort=1, tests=4)
    graph = max(report.graphs, key=len)
    assert sum(work.kernels for work in graph) / estimate.LONGEST <= 36
    steps = estimate.LONGEST
    assert report.total("replays", estimate.WARM) <= steps
    assert report.total("waits", estimate.WARM) <= 3


def test_a_run_of_full_batches_is_issued_in_few_graphs() -> None:
    full, short = np.array([[39, 3]]), np.array([[1, 0]])
    cell = estimate.Cell(9, 2, 1, 1, 5, 9, full, short, 0.0)
    assert estimate.replays(cell).tolist() == [5 * (2 + 1 + 3 + 1 + 3)]


@pytest.mark.slow
def test_fedobps_cell_is_estimated_at_fifteen_seconds_at_most() -> None:
    cell = estimate.paper_cell()
    report = estimate.counted(cell.clients, cell.cohort, cell.tests)
    assert estimate.total(report, cell, estimate.Card()) <= 15


def variants() -> list[tuple[str, str]]:
    return [(name, text) for name, entry in sorted(methods().items()) for text in entry.variants]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["lanes", "grouped"])
@pytest.mark.parametrize(("name", "text"), variants(), ids=str)
def test_every_variant_runs_on_a_gpu(name: str, text: str, way: str) -> None:
    from repfl.bench.cells.cell import parse_spec
    from repfl.bench.cells.valid import hyperparameters

    hp = asdict(hyperparameters(*parse_spec(f"{name}[{text}]")))
    found = cases.seen(name, hp, **WAYS[way])
    assert cases.faults(found, cases.computed(name, hp)) == set()


VARYING = {"fedselect"}
"""How many clients of a cohort train together depends on their masks, and a stack records its steps
for every number of clients that it meets.
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("name", sorted(methods()))
@pytest.mark.parametrize(
    "protocol",
    [
        {"model": "tiny-bn", "momentum": 0.9, "lr_decay": 0.9},
        {"participation": 0.5, "sizes": (25, 7, 12, 40, 1, 16)},
    ],
    ids=["momentum", "cohort"],
)
def test_every_method_runs_in_every_way(name: str, way: str, protocol: dict[str, Any]) -> None:
    found = cases.seen(name, **protocol, **WAYS[way])
    wrong = cases.faults(found, cases.computed(name, **protocol))
    if name in VARYING and "participation" in protocol and WAYS[way].get("chunk", 1) > 1:
        wrong -= {"captures", "grows"}
    assert wrong == set()
