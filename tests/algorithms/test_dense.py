"""Large linear layers by oneDNN: PyTorch's linear layer, but for the order of its sums."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import dense
from repfl.algorithms.core.rng import Streams
from tests.speed.clients import learned

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN"
)
SIZES = [(1, 7, 3), (5, 1, 4), (16, 512, 512)]


def drawn(*shape: int) -> Tensor:
    values = Streams(0).at("linear").standard_normal(shape)
    return torch.from_numpy(values).float().requires_grad_()


@pytest.mark.parametrize(("batch", "inputs", "outputs"), SIZES)
def test_onednn_computes_and_learns_as_a_linear_layer_does(
    batch: int, inputs: int, outputs: int
) -> None:
    given = drawn(batch, inputs), drawn(outputs, inputs), drawn(outputs)
    ours, plain = (linear(*given) for linear in (dense.linear, F.linear))
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad(out.square().sum(), given) for out in (ours, plain)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-2)


def test_what_is_frozen_leaves_the_other_gradients_as_they_are() -> None:
    x, weight, bias = drawn(4, 6), drawn(5, 6), drawn(5)
    for frozen in (x, weight, bias):
        frozen.requires_grad_(False)
        asked = [each for each in (x, weight, bias) if each.requires_grad]
        out = dense.linear(x, weight, bias).square().sum()
        ours = torch.autograd.grad(out, asked)
        plain = torch.autograd.grad(F.linear(x, weight, bias).square().sum(), asked)
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
        frozen.requires_grad_()


def test_gradients_of_onednn_can_be_differentiated() -> None:
    given = drawn(3, 4), drawn(2, 4), drawn(2)
    curves = []
    for linear in (dense.linear, F.linear):
        out = linear(*given).pow(3).sum()
        (slope,) = torch.autograd.grad(out, given[1], create_graph=True)
        curves.append(torch.autograd.grad(slope.square().sum(), given))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("batch", "inputs", "dtype", "quicker"),
    [
        (16, 512, torch.float32, True),
        (8, 512, torch.float32, False),
        (500, 256, torch.float32, False),
        (16, 512, torch.float64, False),
    ],
)
def test_onednn_is_taken_where_it_was_measured_to_be_quicker(
    batch: int, inputs: int, dtype: torch.dtype, quicker: bool
) -> None:
    x, weight = (torch.zeros(size, inputs, dtype=dtype) for size in (batch, 512))
    assert dense.pay(x, weight) is quicker
    with torch.autocast("cpu", torch.bfloat16):
        assert not dense.pay(x, weight)


def test_a_client_learns_with_onednn_what_it_learns_without() -> None:
    plain, ours = learned("cnn4", "auto"), learned("cnn4", "onednn")
    assert not torch.equal(plain, ours)  # it is another order of additions
    assert (ours - plain).norm() < 1e-3 * plain.norm()
