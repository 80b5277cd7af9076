"""How a device computes changes rounding, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms.core import ops
from repfl.algorithms.core.lowering import Lowering
from tests.algorithms import toys

SIZES = (24, 17, 30)


def run(**lowering: Any) -> Any:
    return toys.run("fedper", model="tiny-bn", sizes=SIZES, lowering=lowering)


def test_bfloat16_rounds_forward_passes_and_keeps_states_whole() -> None:
    whole, half = run(), run(precision="bf16")
    gap = toys.gap(whole.state, half.state)
    assert 1e-5 < gap < 0.2
    assert all(t.dtype == torch.float32 for t in half.state.values() if t.is_floating_point())


@pytest.mark.parametrize(
    ("name", "hp"),
    [("fedobp", {"score": "fisher"}), ("feddpa", {}), ("fedap", {"pretrain_epochs": 2})],
)
def test_methods_that_look_inside_layers_do_so_in_bfloat16(name: str, hp: dict[str, Any]) -> None:
    model = "tiny-bn" if name == "fedap" else "tiny"
    whole, half = (
        toys.run(name, hp, model=model, sizes=(363, 17, 30), lowering=how)
        for how in ({}, {"precision": "bf16"})
    )
    assert toys.gap(whole.state, half.state) < 0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_running_statistics_move_by_a_tenth_of_all_samples_whatever_the_precision_of_inputs(
    dtype: torch.dtype,
) -> None:
    x = torch.ones(2, 363, 3, 1, 1, dtype=dtype)
    params = {
        "n.weight": torch.ones(2, 3),
        "n.bias": torch.zeros(2, 3),
        "n.mean": torch.zeros(2, 3),
        "n.var": torch.zeros(2, 3),
    }
    valid = (torch.arange(363) < 361).expand(2, -1)
    ops.batch_norm(x, params, "n", ops.Mode(train=True, valid=valid))
    assert torch.equal(params["n.mean"], torch.full((2, 3), 0.1))


def test_forbidding_tf32_changes_nothing_on_a_cpu() -> None:
    whole = run()
    for precision in ("fp32", "tf32"):
        other = run(precision=precision)
        assert all(torch.equal(whole.state[name], other.state[name]) for name in whole.state)


@pytest.mark.parametrize("conv", ["grouped", "matmul"])
def test_both_convolutions_train_alike(conv: str) -> None:
    assert toys.gap(run().state, run(chunk=3, conv=conv).state) < 1e-3


def test_a_choice_of_convolution_holds_inside_its_context_only() -> None:
    x, w = torch.ones(2, 1, 1, 4, 4), torch.ones(2, 1, 1, 3, 3)
    with ops.convolution("matmul"):
        inside = ops.conv2d(x, w).stride()
    assert inside != ops.conv2d(x, w).stride()


def test_tensor_cores_are_as_before_outside() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    for precision, wanted in (("fp32", "ieee"), ("tf32", "tf32")):
        with Lowering(precision=precision).active(torch.device("cuda")):  # type: ignore[arg-type]
            assert torch.backends.cuda.matmul.fp32_precision == wanted
        assert torch.backends.cuda.matmul.fp32_precision == before
