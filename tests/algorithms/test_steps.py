"""Local training that is measured in steps, or in parts of an epoch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.local_training import schedule
from repfl.algorithms.core.settings import Training
from repfl.algorithms.engine.batches import Batch, Plan, plan_batches
from repfl.algorithms.engine.client import Client
from tests.algorithms import toys

SIZES = (25, 7, 0, 40, 1, 16)
"""With batches of 8: 4, 1, no, 5, 1 and 2 in an epoch."""


def plans(skip_single: bool = False, **length: Any) -> tuple[Federation, list[Plan]]:
    """Return the batches of a round's local training."""
    length = {"epochs": None} | length
    fed = toys.run("local", sizes=SIZES, rounds=1, skip_single=skip_single, **length).fed
    chosen = schedule(fed)
    return fed, [plan_batches(fed.data, fed.streams, client, chosen) for client in range(fed.N)]


def test_every_client_takes_the_steps_of_the_recipe() -> None:
    fed, planned = plans(steps=6)
    assert [len(plan.index) for plan in planned] == [6, 6, 0, 6, 6, 6]
    assert fed.local_steps.tolist() == [6, 6, 0, 6, 6, 6]
    assert planned[0].epoch == [0, 0, 0, 0, 1, 1]
    assert planned[4].epoch == [0, 1, 2, 3, 4, 5]


def test_a_client_whose_batches_are_all_skipped_takes_no_step() -> None:
    _, planned = plans(steps=6, skip_single=True)
    assert [len(plan.index) for plan in planned] == [6, 6, 0, 6, 0, 6]


def test_steps_are_the_first_batches_of_the_same_epochs() -> None:
    _, whole = plans(epochs=2)
    _, short = plans(steps=6)
    for some, others in ((short[0], whole[0]), (short[3], whole[3])):
        assert all(map(torch.equal, some.index, others.index[:6]))


@pytest.mark.parametrize(
    ("epochs", "expected"), [(0.5, [2, 1, 0, 3, 1, 1]), (1.5, [6, 2, 0, 8, 2, 3]), (2.0, None)]
)
def test_part_of_an_epoch_is_its_first_batches(epochs: float, expected: list[int] | None) -> None:
    fed, planned = plans(epochs=epochs)
    assert [len(plan.index) for plan in planned] == (expected or [8, 2, 0, 10, 2, 4])
    assert fed.local_steps.tolist() == [len(plan.index) for plan in planned]


def test_a_tenth_of_thirty_batches_is_three() -> None:
    fed = toys.run("local", sizes=(30,) * 6, rounds=1, batch=1, epochs=0.1).fed
    assert fed.local_steps.tolist() == [3] * 6


@pytest.mark.parametrize("length", [{"steps": 5}, {"epochs": 1.5}])
@pytest.mark.parametrize("method", ["fedavg", "ditto", "scaffold", "star-pfl", "floco"])
def test_a_loop_and_a_stack_take_the_same_steps(method: str, length: dict[str, Any]) -> None:
    how: dict[str, Any] = {"sizes": SIZES, "dtype": torch.float64, "epochs": None} | length
    one, two = (toys.run(method, model="tiny-bn", stack=stack, **how) for stack in (1, 6))
    assert toys.gap(one.state, two.state) < 1e-9


def test_floco_plus_counts_steps_or_epochs_as_its_recipe_does() -> None:
    hp = {"tau": 1, "plus_epochs": 1}
    counted = toys.run("floco", hp, sizes=SIZES, epochs=None, steps=5, rounds=2)
    assert counted.state["plus"].isfinite().all()


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_six_steps_are_two_epochs_of_three(method: str) -> None:
    epochs = toys.run(method, sizes=toys.EQUAL, epochs=2)
    steps = toys.run(method, sizes=toys.EQUAL, epochs=None, steps=6)
    assert all(torch.equal(value, steps.state[name]) for name, value in epochs.state.items())


def test_epochs_that_a_method_names_are_epochs() -> None:
    taken: list[Tensor] = []

    def step(client: Client, batch: Batch) -> None:
        client.extras["steps"] = client.extras["steps"] + 1

    fed = toys.run("fedavg", sizes=SIZES, rounds=1, epochs=None, steps=6).fed
    start, zero = fed.new_model().expand(fed.N, -1), {"steps": torch.zeros(fed.N)}
    for epochs in (None, 1):
        done = fed.train(start, step=step, extras=zero, keep=("extras",), epochs=epochs)
        taken.append(done.extras["steps"])
    assert taken[0].tolist() == [6, 6, 0, 6, 6, 6]
    assert taken[1].tolist() == [4, 1, 0, 5, 1, 2]


@pytest.mark.parametrize("length", [{"steps": 5}, {"epochs": 1.5}])
def test_a_method_that_divides_epochs_says_so(length: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"training.epochs is no whole number"):
        toys.run("fedrep", **{"epochs": None} | length)


@pytest.mark.parametrize("length", [{}, {"epochs": 1, "steps": 1}])
def test_a_training_has_one_length(length: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="set one of epochs and steps"):
        Training(rounds=1, batch=8, lr=0.1, **length)
