"""Small maps window by window: PyTorch's convolution, but for the order of its sums."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core import ops, windows
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.fisher import fisher
from repfl.algorithms.core.rng import Streams
from repfl.bench.trust.toys import toy_recipe
from tests.speed.clients import cifar_shaped

SHAPES = [
    (size, kernel, stride, padding)
    for size, kernel, stride, padding in product(
        ((1, 1), (2, 2), (3, 3), (4, 4), (2, 3)),
        ((1, 1), (3, 3), (5, 5), (3, 1)),
        (1, 2),
        (0, 1, 2),
    )
    if padding < min(kernel)
    and all(have + 2 * padding >= width for have, width in zip(size, kernel, strict=True))
]


def drawn(*shape: int) -> Tensor:
    return torch.from_numpy(Streams(0).at("conv").standard_normal(shape)).requires_grad_()


@pytest.mark.parametrize(("size", "kernel", "stride", "padding"), SHAPES)
def test_windows_compute_and_learn_as_a_convolution_does(
    size: tuple[int, int], kernel: tuple[int, int], stride: int, padding: int
) -> None:
    given = drawn(3, 4, *size), drawn(5, 4, *kernel), drawn(5)
    ours, plain = (
        convolve(*given, stride=stride, padding=padding) for convolve in (windows.conv2d, F.conv2d)
    )
    torch.testing.assert_close(ours, plain)
    gradients = [torch.autograd.grad(out.square().sum(), given) for out in (ours, plain)]
    torch.testing.assert_close(*gradients)


def test_gradients_of_windows_can_be_differentiated() -> None:
    given = drawn(2, 3, 2, 2), drawn(4, 3, 3, 3)
    assert torch.autograd.gradgradcheck(
        lambda x, weight: windows.conv2d(x, weight, None, 1, 1), given
    )


@pytest.mark.parametrize(
    ("side", "channels", "stride", "padding", "quicker"),
    [(2, 64, 1, 1, True), (4, 64, 2, 1, True), (4, 64, 1, 1, False), (2, 16, 1, 1, False)],
)
def test_windows_are_taken_where_they_were_measured_to_be_quicker(
    side: int, channels: int, stride: int, padding: int, quicker: bool
) -> None:
    x, weight = torch.zeros(1, channels, side, side), torch.zeros(channels, channels, 3, 3)
    assert windows.pay(x, weight, stride, padding) is quicker
    with torch.autocast("cpu", torch.bfloat16):
        assert not windows.pay(x, weight, stride, padding)


def federation(how: ops.Convolution) -> Federation:
    """Two clients with a ResNet whose last maps are of one pixel."""
    net = models.build("resnet10", channels=3, size=32, classes=10)
    recipe = toy_recipe(clients=2, epochs=1, batch=8, lr=0.01)
    fed = Federation(net, cifar_shaped((16, 12)), recipe, seed=0, conv=how)
    fed.begin(1, scoring=False)
    return fed


def test_a_client_learns_with_windows_what_it_learns_without() -> None:
    found = []
    for how in ("auto", "windows"):
        fed = federation(how)
        start = fed.new_model().expand(2, -1)
        end = fed.train(start).theta
        found.append((end - start, fisher(fed, end)))
    (plain, squares), (ours, ours_squares) = found
    assert not torch.equal(plain, ours)  # it is another order of additions
    assert (ours - plain).norm() < 1e-3 * plain.norm()
    assert (ours_squares - squares).norm() < 1e-2 * squares.norm()
