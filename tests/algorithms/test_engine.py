"""Local training is PyTorch's SGD, padding is invisible, and randomness has addresses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repfl.algorithms import models
from repfl.algorithms.core import ops, pooling
from repfl.algorithms.core.batches import Schedule, plan_batches
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Ledger, code_bytes, encode
from repfl.algorithms.core.ops import Mode
from repfl.algorithms.core.rng import Streams, cohort, flbench_cohort
from tests.algorithms import toys


def federation(
    model: str = "tiny", *, chunk: int = 1, sizes: tuple[int, ...] = toys.RAGGED, **protocol: object
) -> Federation:
    held = toys.data(sizes)
    net = models.build(model, channels=1, size=8, classes=held.classes)
    recipe = toys.recipe(clients=len(sizes), **protocol)  # type: ignore[arg-type]
    fed = Federation(net, held, recipe, seed=3, dtype=torch.float64, chunk=chunk)
    fed.begin(1, scoring=False)
    return fed


class TinyBN(nn.Module):
    """tiny-bn as an ordinary module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.fc1, self.fc2 = nn.Linear(256, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"weight_decay": 0.1, "momentum": 0.5},
        {"clip": 0.05, "momentum": 0.9},
    ],
)
@pytest.mark.parametrize("chunk", [1, 6])
def test_training_equals_torch_optim_sgd_client_by_client(
    options: dict[str, float], chunk: int
) -> None:
    fed = federation("tiny-bn", chunk=chunk, **options)
    start = torch.stack([fed.new_model(client) for client in range(fed.N)])
    theta = fed.train(start).theta
    for client in (0, 3, 5):
        net = TinyBN().double()
        named = fed.layout.split(start[client : client + 1])
        rename = {
            n: n.replace(".mean", ".running_mean").replace(".var", ".running_var") for n in named
        }
        net.load_state_dict({rename[n]: t[0] for n, t in named.items()}, strict=False)
        plan = plan_batches(fed.data, fed.streams, client, Schedule("batches", 1, 2, 0, 8, False))
        optimiser = torch.optim.SGD(
            net.parameters(),
            0.05,
            options.get("momentum", 0.0),
            0.0,
            options.get("weight_decay", 0.0),
        )
        for index in plan.index:
            optimiser.zero_grad()
            F.cross_entropy(net(fed.data.inputs(index)), fed.data.labels[index]).backward()
            if "clip" in options:
                nn.utils.clip_grad_norm_(net.parameters(), options["clip"])
            optimiser.step()
        final = net.state_dict()
        for name, tensor in fed.layout.split(theta[client : client + 1]).items():
            torch.testing.assert_close(tensor[0], final[rename[name]], rtol=1e-9, atol=1e-11)


def test_float32_stack_and_loop_agree_after_one_step() -> None:
    states = []
    for chunk in (1, 4):
        run = toys.run(
            "fedavg", model="tiny-bn", sizes=(8, 8, 8, 8), chunk=chunk, rounds=1, epochs=1, batch=8
        )
        states.append(run.state)
    assert toys.gap(*states) < 1e-4


def test_frozen_entries_feel_neither_momentum_nor_weight_decay() -> None:
    fed = federation("tiny-bn", momentum=0.9, weight_decay=0.1)
    start = fed.new_model().expand(fed.N, -1)
    whole_tensors = fed.layout.head
    assert torch.equal(
        fed.train(start, trainable=whole_tensors).theta[:, fed.layout.learnable & ~whole_tensors],
        start[:, fed.layout.learnable & ~whole_tensors],
    )
    scattered = torch.from_numpy(fed.streams.at("mask").random((fed.N, fed.D)) < 0.5)
    theta = fed.train(start, trainable=scattered).theta
    frozen = ~scattered & fed.layout.learnable
    assert torch.equal(theta[frozen], start[frozen])
    assert (theta != start)[0][scattered[0] & fed.layout.learnable].float().mean() > 0.5


def test_phases_continue_the_batch_order() -> None:
    fed = federation()
    start = fed.new_model().expand(fed.N, -1)
    halfway = fed.train(start, epochs=1).theta
    assert torch.equal(
        fed.train(halfway, epochs=1, first_epoch=1).theta, fed.train(start, epochs=2).theta
    )


def test_kept_gradient_is_the_one_of_the_last_batch() -> None:
    for chunk in (1, 6):
        fed = federation(chunk=chunk)
        start = fed.new_model().expand(fed.N, -1)
        kept = fed.train(start, keep=("last_grad",))
        one_step_short = [
            len(
                plan_batches(fed.data, fed.streams, c, Schedule("batches", 1, 2, 0, 8, False)).index
            )
            for c in range(fed.N)
        ]
        assert torch.equal(
            kept.last_grad[one_step_short.index(0)], torch.zeros(fed.D, dtype=torch.float64)
        )
        plan = plan_batches(fed.data, fed.streams, 0, Schedule("batches", 1, 2, 0, 8, False))
        params = fed.layout.split(start[:1])
        for index in plan.index:
            leaves = {n: t.detach().requires_grad_() for n, t in params.items()}
            loss = F.cross_entropy(
                fed.model.logits(leaves, fed.data.inputs(index[None]), Mode(train=True))[0],
                fed.data.labels[index],
            )
            grads = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
            params = {n: t - 0.05 * grads[n] for n, t in params.items()}
        torch.testing.assert_close(
            kept.last_grad[:1], fed.layout.join(grads), rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("chunk", [1, 4, 6])
def test_epoch_models_are_those_of_shorter_trainings(chunk: int) -> None:
    fed = federation(chunk=chunk)
    start = fed.new_model().expand(fed.N, -1)
    epochs = fed.train(start, epochs=3, keep=("epochs",)).epochs
    for e in range(3):
        torch.testing.assert_close(
            epochs[e], fed.train(start, epochs=e + 1).theta, rtol=1e-9, atol=1e-12
        )


def test_padded_samples_touch_neither_statistics_nor_outputs() -> None:
    rng = Streams(0).at("x")
    x = torch.from_numpy(rng.standard_normal((2, 5, 3, 4, 4)))
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    params = {
        "bn.weight": torch.from_numpy(rng.random((2, 3))),
        "bn.bias": torch.zeros(2, 3).double(),
    }
    params |= {"bn.mean": torch.zeros(2, 3).double(), "bn.var": torch.ones(2, 3).double()}
    out = ops.batch_norm(x, params, "bn", Mode(train=True, valid=valid))
    mean, var = torch.zeros(3).double(), torch.ones(3).double()
    alone = F.batch_norm(
        x[1, :3], mean, var, params["bn.weight"][1], params["bn.bias"][1], training=True
    )
    torch.testing.assert_close(out[1, :3], alone)
    torch.testing.assert_close(params["bn.var"][1], var)
    torch.testing.assert_close(params["bn.mean"][1], mean)


def test_a_single_value_per_channel_leaves_running_statistics_alone() -> None:
    params = {
        "bn.weight": torch.ones(1, 3),
        "bn.bias": torch.ones(1, 3),
        "bn.mean": torch.full((1, 3), 2.0),
        "bn.var": torch.full((1, 3), 3.0),
    }
    out = ops.batch_norm(torch.full((1, 1, 3, 1, 1), 7.0), params, "bn", Mode(train=True))
    assert torch.equal(out, torch.ones(1, 1, 3, 1, 1))
    assert torch.equal(params["bn.mean"], torch.full((1, 3), 2.0))
    assert torch.equal(params["bn.var"], torch.full((1, 3), 3.0))


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1)])
def test_both_stacked_convolutions_compute_the_same(stride: int, padding: int) -> None:
    rng = Streams(0).at("conv")
    x, w, b = (
        torch.from_numpy(rng.standard_normal(shape))
        for shape in ((3, 2, 4, 9, 9), (3, 5, 4, 3, 3), (3, 5))
    )
    torch.testing.assert_close(
        ops._conv_matmul(x, w, b, stride, padding), ops._conv_grouped(x, w, b, stride, padding)
    )


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (1, 6, 9, 7), (3, 1, 2, 2)])
def test_pooling_has_pytorchs_bits_with_and_without_a_gradient(
    shape: tuple[int, ...], order: torch.memory_format
) -> None:
    x = torch.from_numpy(Streams(0).at("pool").standard_normal(shape)).round(decimals=1)
    x[..., 0, 0], x[..., 1, 1] = float("nan"), float("-inf")
    x = x.to(memory_format=order)
    plain = F.max_pool2d(x, 2)
    for learns in (False, True):
        ours = ops.max_pool(x.clone(memory_format=order).requires_grad_(learns), 2)
        torch.testing.assert_close(ours, plain, rtol=0, atol=0, equal_nan=True)
        assert ours.stride() == plain.stride()


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (1, 6, 9, 7), (3, 1, 2, 2)])
def test_gradients_of_pooling_have_pytorchs_bits_also_where_values_are_equal(
    shape: tuple[int, ...], order: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "MANY", 0)
    drawn = torch.from_numpy(Streams(0).at("pool").standard_normal(shape))
    x = drawn.round().to(memory_format=order)
    outcomes = []
    for pool in (lambda x: F.max_pool2d(x, 2), lambda x: ops.max_pool(x, 2)):
        leaf = x.clone(memory_format=order).requires_grad_()
        out = pool(leaf)
        weight = torch.from_numpy(Streams(1).at("pool").standard_normal(out.shape))
        (once,) = torch.autograd.grad(out, leaf, weight)
        (grad,) = torch.autograd.grad(pool(leaf).square().sum(), leaf, create_graph=True)
        (twice,) = torch.autograd.grad((grad * x).sum(), leaf)
        outcomes.append((once, grad.detach(), twice))
    for theirs, ours in zip(*outcomes, strict=True):
        assert torch.equal(ours, theirs)


# -- randomness ------------------------------------------------------------------------------------


def test_draws_depend_on_their_address_only() -> None:
    one, other = Streams(1), Streams(1)
    other.at("something else", 5).random(100)
    assert np.array_equal(one.at("cohort", 3).random(5), other.at("cohort", 3).random(5))
    assert not np.array_equal(one.at("cohort", 3).random(5), one.at("cohort", 4).random(5))
    assert not np.array_equal(Streams(2).at("cohort", 3).random(5), one.at("cohort", 3).random(5))


def test_cohorts_are_ascending_and_of_the_right_size() -> None:
    drawn = cohort(Streams(0), 100, 10, 7)
    assert len(set(drawn.tolist())) == 10
    assert torch.equal(drawn, drawn.sort().values)


def test_flbench_participants_are_those_of_the_published_logs() -> None:
    assert flbench_cohort(42, 100, 10, 10).tolist() == [77, 81, 21, 68, 93, 31, 20, 59, 48, 34]
    assert flbench_cohort(42, 100, 10, 20).tolist() == [69, 99, 67, 0, 76, 41, 62, 2, 14, 46]


def test_active_clients_are_ascending_and_called_ones_in_the_order_of_the_draw() -> None:
    fed = toys.run("fedavg", participation=0.5, sampling="flbench", rounds=1).fed
    drawn = [
        flbench_cohort(fed.streams.seed, fed.N, fed.K, round_).tolist() for round_ in range(1, 7)
    ]
    assert any(order != sorted(order) for order in drawn)
    for round_, order in enumerate(drawn, 1):
        fed.begin(round_, scoring=False)
        assert (fed.called.tolist(), fed.active.tolist()) == (order, sorted(order))


def test_methods_share_initial_models_cohorts_and_batches() -> None:
    one, other = (toys.run(name, participation=0.5, rounds=1) for name in ("fedavg", "fedper"))
    assert torch.equal(one.fed.active, other.fed.active)
    assert torch.equal(one.fed.new_model(), other.fed.new_model())
    assert torch.equal(
        one.fed.trained, other.fed.trained
    )  # the first round starts from the same model on the same batches


# -- messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["none", "bitmap", "index", "shorter"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_billed_code_bytes_equal_encoded_ones(code: str, share: float) -> None:
    rng = Streams(0).at("mask")
    domain = torch.from_numpy(rng.random(1001) < 0.9)
    mask = torch.from_numpy(rng.random(1001) < share) & domain
    message = encode(torch.zeros(1001), mask, code, domain)  # type: ignore[arg-type]
    assert len(message) == 4 * int(mask.sum()) + int(code_bytes(code, domain.sum(), mask.sum()))  # type: ignore[arg-type]


def test_edges_bill_sender_and_receiver() -> None:
    ledger = Ledger(3)
    sends = torch.tensor(
        [[False, True, False], [False, False, False], [False, True, False]]
    )  # client 1 talks to 0 and 2
    ledger.bill_edges(sends, torch.tensor(10), torch.tensor(3))
    assert ledger.round["up_values"].tolist() == [0, 80, 0]
    assert ledger.round["down_values"].tolist() == [40, 0, 40]
    assert ledger.round["up_codes"].tolist() == [0, 6, 0]
    assert ledger.edges.tolist() == [[0, 43, 0], [0, 0, 0], [0, 43, 0]]
