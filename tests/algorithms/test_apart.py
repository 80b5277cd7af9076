"""Gradients of a convolution taken apart: PyTorch's convolution, but for the order of its sums."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import apart
from repfl.algorithms.core.rng import Streams
from tests.speed.clients import learned

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN"
)
FEW, MANY = ((3, 6, 9, 9), (16, 6, 5, 5)), ((3, 16, 8, 8), (24, 16, 3, 3))
"""Shapes of images and kernels: fewer maps than are made one by one, and more."""


def drawn(shape: tuple[int, ...], *, by_map: bool = True) -> Tensor:
    values = torch.from_numpy(Streams(0).at("convolution").standard_normal(shape)).float()
    order = torch.contiguous_format if by_map else torch.channels_last
    return values.contiguous(memory_format=order).requires_grad_()


def given(shapes: tuple[tuple[int, ...], tuple[int, ...]], *, by_map: bool) -> list[Tensor]:
    """Images, a kernel as a client has it, its bias."""
    images, kernel = shapes
    return [drawn(images, by_map=by_map), drawn(kernel, by_map=False), drawn((kernel[0],))]


@pytest.mark.parametrize("by_map", [True, False])
@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1)])
@pytest.mark.parametrize("shapes", [FEW, MANY])
def test_a_convolution_computes_and_learns_as_before(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], stride: int, padding: int, by_map: bool
) -> None:
    tensors = given(shapes, by_map=by_map)
    assert apart.pay(*tensors[:2])
    ours, plain = (conv(*tensors, stride, padding) for conv in (apart.conv2d, F.conv2d))
    assert torch.equal(ours, plain)
    found, wanted = (torch.autograd.grad(out.square().sum(), tensors) for out in (ours, plain))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-2)
    for of in range(3):  # whoever is frozen leaves the others as they are
        asked = tensors[:of] + tensors[of + 1 :]
        tensors[of].requires_grad_(False)
        out = apart.conv2d(*tensors, stride, padding).square().sum()
        rest = torch.autograd.grad(out, asked)
        torch.testing.assert_close(rest, found[:of] + found[of + 1 :], rtol=0, atol=0)
        tensors[of].requires_grad_()


def test_gradients_taken_apart_can_be_differentiated() -> None:
    tensors, curves = given(FEW, by_map=True), []
    for conv in (apart.conv2d, F.conv2d):
        out = conv(*tensors, 1, 0).pow(3).mean()
        slopes = torch.autograd.grad(out, tensors, create_graph=True)
        curves.append(torch.autograd.grad(sum(s.square().sum() for s in slopes), tensors))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("kernel", "dtype", "quicker"),
    [
        ((16, 6, 5, 5), torch.float32, True),
        ((16, 6, 5, 5), torch.float64, False),
        ((6, 3, 5, 5), torch.float32, False),
        ((128, 1, 5, 5), torch.float32, False),
    ],
)
def test_gradients_go_apart_where_that_was_measured_to_be_quicker(
    kernel: tuple[int, ...], dtype: torch.dtype, quicker: bool
) -> None:
    x, weight = torch.zeros(2, kernel[1], 8, 8, dtype=dtype), torch.zeros(kernel, dtype=dtype)
    assert apart.pay(x, weight) is quicker
    with torch.no_grad():  # nobody asks for any
        assert not apart.pay(x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not apart.pay(x, weight)


def test_a_client_learns_with_gradients_apart_what_it_learns_without() -> None:
    plain, ours = learned("lenet5", "auto"), learned("lenet5", "apart")
    assert not torch.equal(plain, ours)  # it is another order of additions
    assert (ours - plain).norm() < 1e-3 * plain.norm()
