"""A convolution with batch norm, pooling and ReLU as one: PyTorch's layers, but for the order of
their sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core import blocks, ops
from repfl.algorithms.core.layout import Tensors
from repfl.algorithms.core.ops import Convolution, Mode
from repfl.algorithms.core.rng import Streams
from tests.speed.clients import learned

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN"
)
GREY, RGB, OBLONG = (
    ((16, 1, 28, 28), (6, 1, 5, 5)),
    ((4, 3, 32, 32), (16, 3, 5, 5)),
    ((8, 2, 20, 34), (16, 2, 3, 7)),
)
"""Shapes of images and kernels."""


@dataclass
class Layers:
    """One client's layers and a batch for them."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    rng: Streams = field(default_factory=lambda: Streams(0))

    def drawn(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self.rng.at(name).standard_normal(shape)).float()

    def __post_init__(self) -> None:
        maps = self.kernel[:1]
        self.x = self.drawn("images", self.shape)
        self.x[:2] = 0.5  # whole windows of equal values
        self.params: Tensors = {
            "conv.weight": self.drawn("kernel", self.kernel),
            "conv.bias": self.drawn("bias", maps),
            "norm.weight": self.drawn("scale", maps),  # some of them negative
            "norm.bias": self.drawn("shift", maps),
            "norm.mean": torch.zeros(maps),
            "norm.var": torch.ones(maps),
        }
        self.leaves = [self.params[name].requires_grad_() for name in list(self.params)[:4]]

    def out(self, how: Convolution, *, train: bool = True) -> Tensor:
        with ops.convolution(how):
            return ops.block(self.x, self.params, "conv", "norm", Mode(train=train))


@pytest.mark.parametrize(("shape", "kernel"), [GREY, RGB, OBLONG])
def test_a_block_computes_and_learns_what_its_layers_do(
    shape: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    ours, plain = Layers(shape, kernel), Layers(shape, kernel)
    assert blocks.pay(ours.x, ours.params["conv.weight"])
    one, other = ours.out("apart"), plain.out("onednn")
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    for moved in ("norm.mean", "norm.var"):
        torch.testing.assert_close(ours.params[moved], plain.params[moved], rtol=1e-5, atol=1e-6)
    rising = ours.drawn("gradient", one.shape)
    found = torch.autograd.grad(one, ours.leaves, rising)
    wanted = torch.autograd.grad(other, plain.leaves, rising)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)


def test_a_block_is_its_layers_where_nothing_is_trained() -> None:
    assert torch.equal(*(Layers(*GREY).out(how, train=False) for how in ("apart", "onednn")))
    with torch.no_grad():
        assert torch.equal(*(Layers(*GREY).out(how) for how in ("apart", "onednn")))


def test_gradients_of_a_block_can_be_differentiated_and_some_of_it_may_be_frozen() -> None:
    curves = []
    for how in ("apart", "onednn"):
        layers = Layers(*GREY)
        layers.leaves.pop().requires_grad_(False)
        out = layers.out(how).square().mean()
        slopes = torch.autograd.grad(out, layers.leaves, create_graph=True)
        curves.append(torch.autograd.grad(sum(s.square().sum() for s in slopes), layers.leaves))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "kernel", "quicker"),
    [
        ((16, 1, 28, 28), (6, 1, 5, 5), True),
        ((8, 1, 28, 28), (6, 1, 5, 5), False),  # too few values
        ((32, 6, 28, 28), (6, 6, 5, 5), False),  # many maps
        ((32, 1, 27, 28), (6, 1, 5, 5), False),  # windows that do not divide it
        ((32, 1, 28, 28), (6, 1, 4, 4), False),
    ],
)
def test_blocks_are_made_where_that_was_measured_to_be_quicker(
    shape: tuple[int, ...], kernel: tuple[int, ...], quicker: bool
) -> None:
    x, weight = torch.zeros(shape), torch.zeros(kernel)
    assert blocks.pay(x, weight) is quicker
    assert not blocks.pay(x.double(), weight.double())
    assert not blocks.pay(x.clone().requires_grad_(), weight)  # somebody wants its gradient


def test_a_client_learns_with_a_block_what_it_learns_with_its_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocked = []
    for wanted in (True, False):
        monkeypatch.setattr(
            blocks, "pay", lambda x, _, wanted=wanted: wanted and not x.requires_grad
        )
        blocked.append(learned("lenet5", "apart"))
    ours, plain = blocked
    assert not torch.equal(plain, ours)  # it is another order of additions
    assert (ours - plain).norm() < 1e-3 * plain.norm()
