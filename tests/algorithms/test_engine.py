"""Local training is PyTorch's SGD, one client at a time or stacked; randomness has addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Ledger, code_bytes, encode
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras
from repfl.algorithms.engine.keyed_init import BatchNorm2d
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.rng import Streams, cohort, flbench_cohort
from repfl.datasets.core.recipe import FromTorch
from tests.algorithms import plain, toys
from tests.references import nets


def federation(
    model: str = "tiny", *, stack: int = 1, sizes: tuple[int, ...] = toys.RAGGED, **protocol: object
) -> Federation:
    held = toys.data(sizes)
    net = models.build(model, channels=1, size=8, classes=held.classes)
    recipe = toys.recipe(clients=len(sizes), **protocol)  # type: ignore[arg-type]
    fed = Federation(net, held, recipe, seed=3, dtype=torch.float64, stack=stack)
    fed.begin(1)
    return fed


def test_rows_of_clients_come_from_one_vector_and_can_be_written() -> None:
    fed = federation()
    fed.set_active([1, 3])
    rows, new = fed.client_rows(fed.new_model()), torch.ones(2, fed.params.size).double()
    assert rows.equal(fed.client_rows(fed.new_models()))
    written = fed.scatter_rows(rows, new)
    assert written[[1, 3]].equal(new)
    assert written[0].equal(fed.new_model())
    with pytest.raises(ValueError, match="client_rows"):
        fed.scatter_rows(fed.new_models(), new)


@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.9, "clip": 0.05}]
)
@pytest.mark.parametrize("stack", [1, 6])
def test_training_equals_torch_optim_sgd_client_by_client(
    options: dict[str, float], stack: int
) -> None:
    fed = federation("tiny-bn", stack=stack, **options)
    start = torch.stack([fed.new_model(client) for client in range(fed.N)])
    theta = fed.train(start)
    for client in (0, 3, 5):
        net = nets.load(fed, nets.TinyBN(fed).double(), start[client])
        sgd = {name: value for name, value in options.items() if name != "clip"}
        optimiser = torch.optim.SGD(net.parameters(), 0.05, **sgd)
        for x, y in plain.batches(fed, client, 1, 2):
            optimiser.zero_grad()
            F.cross_entropy(net(x), y).backward()
            if "clip" in options:
                nn.utils.clip_grad_norm_(net.parameters(), options["clip"])
            optimiser.step()
        final = net.state_dict()
        for name, tensor in fed.params.unflatten(theta[client]).items():
            torch.testing.assert_close(tensor, final[name], rtol=1e-9, atol=1e-11)


def test_frozen_entries_feel_neither_momentum_nor_weight_decay() -> None:
    fed = federation("tiny-bn", momentum=0.9, weight_decay=0.1)
    start = fed.new_model().expand(fed.N, -1)
    body = fed.params.learnable & ~fed.params.head
    assert torch.equal(fed.train(start, trainable=fed.params.head)[:, body], start[:, body])
    scattered = torch.from_numpy(fed.streams.at("mask").random((fed.N, fed.D)) < 0.5)
    theta = fed.train(start, trainable=scattered)
    frozen = ~scattered & fed.params.learnable
    assert torch.equal(theta[frozen], start[frozen])
    assert (theta != start)[0][scattered[0] & fed.params.learnable].float().mean() > 0.5


def test_a_single_value_per_channel_leaves_running_statistics_alone() -> None:
    norm = BatchNorm2d(3)
    with torch.no_grad():
        norm.bias.fill_(1.0)
        norm.running_mean.fill_(2.0)
        norm.running_var.fill_(3.0)
    assert torch.equal(norm(torch.full((1, 3, 1, 1), 7.0)), torch.ones(1, 3, 1, 1))
    assert torch.equal(norm.running_mean, torch.full((3,), 2.0))
    assert torch.equal(norm.running_var, torch.full((3,), 3.0))


@pytest.mark.parametrize("stack", [1, 4])
def test_a_step_of_ones_own_has_extras_a_second_model_and_collects_rows(stack: int) -> None:
    fed = federation(sizes=(25, 7, 0, 40), stack=stack)
    start = fed.new_model().expand(fed.N, -1)

    def step(client: Client, batch: Batch) -> None:
        grads, logits = client.grad(batch, with_logits, has_aux=True)
        client.update(grads, scale=client.extras["scale"])
        client.extras["seen"] = client.extras["seen"] + batch.y.shape[0]
        client.collect("logits", logits)
        client.update(client.grad(batch, of="other"), of="other")

    scale, seen = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    models = {"params": start, "other": start}
    extras = {"scale": scale, "seen": seen}
    done = fed.train(models, step=step, extras=extras, epochs=1, keep=("models", "extras"))
    assert done.extras["seen"].tolist() == [25, 7, 0, 40]
    torch.testing.assert_close(done.models["other"], done.params)
    torch.testing.assert_close(done.params, fed.train(start, epochs=1))
    assert [len(rows) for rows in done.collected["logits"]] == [25, 7, 0, 40]


@pytest.mark.parametrize("stack", [1, 4])
def test_learnt_extras_descend_beside_the_model_and_feel_no_pull(stack: int) -> None:
    fed = federation(sizes=(25, 7, 0, 40), stack=stack)
    start, anchor = fed.new_model().expand(fed.N, -1), fed.new_model(1).expand(fed.N, -1)
    extras = {"shift": torch.zeros(fed.N, fed.classes, dtype=torch.float64)}

    def loss(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        return F.cross_entropy(model(batch.x) + extras["shift"], batch.y)

    def step(client: Client, batch: Batch) -> None:
        grads = client.grad(batch, loss, extras=("shift",))
        own, goal = client.tensors(), client.tensors("anchor")
        client.update(
            {n: g + 0.5 * (own[n] - goal[n]) if n in own else g for n, g in grads.items()}
        )

    how: dict[str, Any] = {"extras": extras, "epochs": 2, "keep": ("extras",)}
    done = fed.train(start, loss=loss, learn=("shift",), pull=(anchor, 0.5), **how)
    same = fed.train(start, step=step, models={"anchor": anchor}, **how)
    torch.testing.assert_close(done.params, same.params)
    half = torch.full((fed.params.size,), 0.5, dtype=torch.float64)
    same = fed.train(start, loss=loss, learn=("shift",), pull=(anchor, half), **how)
    torch.testing.assert_close(done.params, same.params)
    torch.testing.assert_close(done.extras["shift"], same.extras["shift"])
    assert done.extras["shift"].any(1).tolist() == [True, True, False, True]
    with pytest.raises(ValueError, match="cannot learn 'shft'; extras: shift"):
        fed.train(start, loss=loss, learn=("shft",), extras=extras)


def test_a_mean_has_the_shape_of_one_clients_tensor() -> None:
    fed = federation(sizes=(25, 7, 0, 40))
    x = torch.arange(24, dtype=torch.float64).view(4, 2, 3)
    assert torch.equal(fed.mean(x), fed.mean(x.flatten(1)).view(2, 3))
    assert fed.mean(x[:, 0, 0], torch.tensor([1, 0, 0, 3])).tolist() == (0 + 3 * 18) / 4


def with_logits(model: ClientModel, batch: Batch, extras: Extras) -> tuple[Tensor, Tensor]:
    logits = model(batch.x)
    return F.cross_entropy(logits, batch.y), logits


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_step_of_torch_optim_is_that_of_the_engine(scaled: bool, frozen: bool) -> None:
    fed = federation("tiny-bn", momentum=0.9, weight_decay=0.1)
    start = fed.new_model().expand(fed.N, -1)
    half = torch.from_numpy(fed.streams.at("mask").random((fed.N, fed.D)) < 0.5)

    def step(client: Client, batch: Batch) -> None:
        scale = client.extras["scale"] if scaled else None
        client.update(client.grad(batch), scale=scale)

    how: dict[str, Any] = {"trainable": half if frozen else None}
    how["extras"] = {"scale": torch.full((fed.N,), 0.3, dtype=fed.dtype)}
    own = fed.train(start, step=step, **how)
    torchs = fed.train(start, step=step, options={"foreach": False}, **how)
    torch.testing.assert_close(own, torchs)
    assert not torch.equal(own, start)


@pytest.mark.parametrize("stack", [1, 6])
def test_a_kept_gradient_is_zero_where_entries_are_frozen(stack: int) -> None:
    fed = federation(stack=stack)
    trainable = torch.ones(fed.N, fed.D, dtype=torch.bool)
    trainable[0, : fed.params.slices[0].stop + 1] = False  # a tensor and an entry of the next one
    kept = fed.train(fed.new_models(), trainable=trainable, keep=("last_grad",)).last_grad
    assert not kept[~trainable].any()
    assert kept[0].any()


def test_any_optimiser_of_torch_leaves_frozen_entries_alone() -> None:
    fed = federation(sizes=(25, 16), weight_decay=0.1)
    start = fed.new_model().expand(fed.N, -1)
    half = torch.from_numpy(fed.streams.at("mask").random((fed.N, fed.D)) < 0.5)
    trained = fed.train(start, trainable=half, name="AdamW", options={"betas": (0.8, 0.9)})
    assert torch.equal(trained[~half], start[~half])
    assert (trained != start)[half].float().mean() > 0.9


# -- randomness ------------------------------------------------------------------------------------


def test_a_schedule_sets_the_learning_rate_of_every_round() -> None:
    steps = FromTorch("MultiStepLR", {"milestones": [2, 3], "gamma": 0.1})
    fed = federation(rounds=4, lr=0.05, scheduler=steps)
    rates = []
    for round_ in range(1, 5):
        fed.begin(round_)
        rates.append(fed.lr)
    assert rates == pytest.approx([0.05, 0.05, 0.005, 0.0005])


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
    drawn = [flbench_cohort(fed.streams.seed, fed.N, fed.K, r).tolist() for r in range(1, 7)]
    assert any(order != sorted(order) for order in drawn)
    for round_, order in enumerate(drawn, 1):
        fed.begin(round_)
        assert (fed.sampled, fed.active.tolist()) == (order, sorted(order))


def test_methods_share_initial_models_cohorts_and_batches() -> None:
    one, other = (toys.run(name, participation=0.5, rounds=1) for name in ("fedavg", "fedper"))
    assert torch.equal(one.fed.active, other.fed.active)
    assert torch.equal(one.fed.new_model(), other.fed.new_model())
    # the first round starts from the same model on the same batches
    assert torch.equal(one.fed.trained, other.fed.trained)


def test_scores_of_participants_stand_under_their_own_numbers() -> None:
    run = toys.run("fedavg", participation=0.5, rounds=1)
    scored = [client for _, point, client, *_ in run.counts if point == "pre_agg"]
    assert scored == run.fed.active.tolist() != list(range(3))


# -- messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["none", "bitmap", "index", "shorter"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_billed_code_bytes_equal_encoded_ones(code: str, share: float) -> None:
    rng = Streams(0).at("mask")
    domain = torch.from_numpy(rng.random(1001) < 0.9)
    mask = torch.from_numpy(rng.random(1001) < share) & domain
    message = encode(torch.zeros(1001), mask, code, domain)  # type: ignore[arg-type]
    billed = int(code_bytes(code, domain.sum(), mask.sum()))  # type: ignore[arg-type]
    assert len(message) == 4 * int(mask.sum()) + billed


def test_edges_bill_sender_and_receiver() -> None:
    ledger = Ledger(3)
    sends = torch.zeros(3, 3, dtype=torch.bool)
    sends[[0, 2], 1] = True  # client 1 talks to 0 and 2
    ledger.bill_edges(sends, torch.tensor(10), torch.tensor(3))
    assert ledger.round["up_values"].tolist() == [0, 80, 0]
    assert ledger.round["down_values"].tolist() == [40, 0, 40]
    assert ledger.round["up_codes"].tolist() == [0, 6, 0]
    assert ledger.edges.tolist() == [[0, 43, 0], [0, 0, 0], [0, 43, 0]]
