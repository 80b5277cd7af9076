"""Without a GPU: a round on the device `meta`, which refuses whatever would make a GPU wait or mix
devices. That every method passes is a part of the contract; here are the mistakes that it sees.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from repfl.algorithms.fedavg import FedAvg
from repfl.bench.check.toys import SHORT
from tests.algorithms import toys


def asks(fed: Federation, params: Tensor) -> Tensor:
    return params * params.abs().max().item()


def decides(fed: Federation, params: Tensor) -> Tensor:
    return params if bool((params > 0).any()) else -params


def lists(fed: Federation, params: Tensor) -> Tensor:
    return params[fed.active.argsort().tolist()]


def elsewhere(fed: Federation, params: Tensor) -> Tensor:
    return params + torch.zeros(fed.D)


def shape_by_value(fed: Federation, params: Tensor) -> Tensor:
    return params[:, params[0] > 0].sum() + params


def honest(fed: Federation, params: Tensor) -> Tensor:
    return torch.where(params > 0, params, 0.0)


def one_round(change: Callable[[Federation, Tensor], Tensor], stack: int) -> None:
    class Changed(FedAvg):
        def local_update(self, fed: Federation, params: Tensor) -> Tensor:
            return change(fed, fed.train(params))

        def round(self, state: State, fed: Federation) -> State:
            return super().round(state, fed)

    toys.run(Changed(), model="tiny-bn", device="meta", stack=stack, rounds=1, sizes=SHORT)


@pytest.mark.parametrize("stack", [1, 6])
@pytest.mark.parametrize("mistake", [asks, decides, lists, elsewhere, shape_by_value])
def test_a_planted_mistake_is_refused(
    mistake: Callable[[Federation, Tensor], Tensor], stack: int
) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        one_round(mistake, stack)


@pytest.mark.parametrize("stack", [1, 6])
def test_tensor_algebra_is_not(stack: int) -> None:
    one_round(honest, stack)
