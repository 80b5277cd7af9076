"""Small maps window by window or entry by entry: PyTorch's convolution, but for the order of its
sums.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core import entries, ops, windows
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, Sgd
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


WAYS = pytest.mark.parametrize(
    ("way", "dtype"), [(windows, torch.float64), (entries, torch.float32)], ids=["rows", "entries"]
)


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.from_numpy(Streams(0).at("conv").standard_normal(shape)).to(dtype).requires_grad_()


@WAYS
@pytest.mark.parametrize(("size", "kernel", "stride", "padding"), SHAPES)
def test_small_maps_compute_and_learn_as_a_convolution_does(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    padding: int,
    way: Any,
    dtype: torch.dtype,
) -> None:
    maps, weight = drawn(3, 4, *size, dtype=dtype), drawn(5, 4, *kernel, dtype=dtype)
    given = maps, weight, drawn(5, dtype=dtype)
    ours, plain = (
        convolve(*given, stride=stride, padding=padding) for convolve in (way.conv2d, F.conv2d)
    )
    close = 1e-4 if dtype == torch.float32 else 1e-7
    torch.testing.assert_close(ours, plain, rtol=close, atol=close)
    gradients = [torch.autograd.grad(out.square().sum(), given) for out in (ours, plain)]
    torch.testing.assert_close(*gradients, rtol=close, atol=close)


def test_gradients_of_windows_can_be_differentiated() -> None:
    given = drawn(2, 3, 2, 2), drawn(4, 3, 3, 3)
    assert torch.autograd.gradgradcheck(
        lambda x, weight: windows.conv2d(x, weight, None, 1, 1), given
    )


def test_gradients_of_entries_can_be_differentiated() -> None:
    given = drawn(2, 3, 2, 2, dtype=torch.float32), drawn(4, 3, 3, 3, dtype=torch.float32)
    twice = []
    for convolve in (entries.conv2d, F.conv2d):
        out = convolve(*given, None, 1, 1)
        first = torch.autograd.grad(out.square().sum(), given, create_graph=True)
        total = torch.cat([one.flatten() for one in first]).square().sum()
        twice.append(torch.autograd.grad(total, given))
    torch.testing.assert_close(*twice, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("side", "channels", "stride", "padding", "quicker"),
    [(2, 64, 1, 1, True), (4, 64, 2, 1, True), (4, 64, 1, 1, False), (2, 16, 1, 1, False)],
)
def test_windows_are_taken_where_they_were_measured_to_be_quicker(
    side: int, channels: int, stride: int, padding: int, quicker: bool
) -> None:
    x, weight = torch.zeros(1, channels, side, side), torch.zeros(channels, channels, 3, 3)
    assert windows.pay(x, weight, stride, padding) is quicker
    assert entries.pay(x, weight, stride, padding) is quicker
    assert not entries.pay(x.double(), weight.double(), stride, padding)
    with torch.autocast("cpu", torch.bfloat16):
        assert not windows.pay(x, weight, stride, padding)


def federation(how: ops.Convolution) -> Federation:
    """Two clients with a ResNet whose last maps are of one pixel."""
    net = models.build("resnet10", channels=3, size=32, classes=10)
    recipe = toy_recipe(clients=2, epochs=1, batch=8, lr=0.01)
    fed = Federation(net, cifar_shaped((16, 12)), recipe, seed=0, conv=how)
    fed.begin(1, scoring=False)
    return fed


def test_a_client_learns_with_small_maps_taken_apart_what_it_learns_without() -> None:
    found = []
    ways: tuple[ops.Convolution, ...] = ("auto", "windows", "apart")
    for how in ways:
        fed = federation(how)
        start = fed.new_model().expand(2, -1)
        end = fed.train(start).theta
        found.append((end - start, fisher(fed, end)))
    plain, squares = found[0]
    for ours, ours_squares in found[1:]:
        assert not torch.equal(plain, ours)  # it is another order of additions
        assert (ours - plain).norm() < 1e-3 * plain.norm()
        assert (ours_squares - squares).norm() < 1e-2 * squares.norm()
    assert not torch.equal(found[1][0], found[2][0])


@pytest.mark.parametrize(("how", "moved"), [("auto", 0), ("windows", 0), ("apart", 4)])
def test_kernels_lie_in_memory_as_their_gradients_do(how: ops.Convolution, moved: int) -> None:
    net = models.build("resnet10", channels=3, size=32, classes=10)
    start = net.initial(Streams(0))[None]
    masks = {part.name: None for part in net.layout if part.kind != "stat"}
    local = Chunk(net, net.layout, {"w": start}, {}, Sgd(0.1), masks)
    before = dict(local.models["w"])
    batch = Batch(torch.ones(1, 8, 3, 32, 32), torch.zeros(1, 8, dtype=torch.int64), None)
    with ops.convolution(how):
        for _ in range(2):
            grads = local.grad(batch)
            now = local.models["w"]
            assert all(entries.own(grad) is entries.own(now[name]) for name, grad in grads.items())
    assert sum(now[name] is not held for name, held in before.items()) == moved
    assert torch.equal(local.flat("w")[:, net.layout.learnable], start[:, net.layout.learnable])
