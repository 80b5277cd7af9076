"""FedDPA and the Fisher information: limiting cases, plain transcriptions, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core import ops
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.fisher import fisher
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.model import Model, affine, conv, dense
from repfl.algorithms.core.ops import EVAL
from repfl.bench.trust import contract
from tests.algorithms import plain, toys

SIZES = (25, 7, 12, 16)


# -- Fisher information ----------------------------------------------------------------------------


def sample_by_sample(fed: Federation, flat: Tensor, client: int) -> Tensor:
    """The definition: every sample's gradient, squared, then the mean."""
    total, own = torch.zeros(1, fed.D, dtype=fed.dtype), fed.data.train[client]
    for j in own:
        params = fed.layout.split(flat[None])
        leaves = {s.name: params[s.name].requires_grad_() for s in fed.layout if s.kind != "stat"}
        likelihood = fed.model.logits(params, fed.data.inputs(j[None, None]), EVAL).log_softmax(2)[
            0, 0, fed.data.labels[j]
        ]
        grads = torch.autograd.grad(likelihood, list(leaves.values()))
        total += fed.layout.spread(dict(zip(leaves, grads, strict=True))).square()
    return total[0] / max(len(own), 1)


@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("net", ["tiny", "tiny-bn"])
def test_fisher_information_is_the_mean_of_squared_gradients(net: str, chunk: int) -> None:
    run = toys.run("local", model=net, dtype=torch.float64, rounds=2, chunk=chunk)
    found = fisher(run.fed, run.state["w"])
    for client in range(run.fed.N):
        expected = sample_by_sample(run.fed, run.state["w"][client], client)
        assert (found[client] - expected).abs().max() <= 1e-12 * expected.abs().max()
    assert not found[:, run.fed.layout.stats].any()


def grouped() -> Model:
    """Two convolutions (with stride and padding) and group normalisation."""

    def body(p: Params, x: Tensor, mode: ops.Mode) -> Tensor:
        x = ops.group_norm(
            ops.conv2d(x, p["one.weight"], stride=2, padding=1), p["norm.weight"], p["norm.bias"], 2
        ).relu()
        return ops.global_average(ops.conv2d(x, p["two.weight"], p["two.bias"]).relu())

    specs = [
        *conv("one", 1, 4, 3, bias=False),
        *affine("norm", 4),
        *conv("two", 4, 6, 3),
        *dense("head", 6, 4, head=True),
    ]
    return Model("grouped", tuple(specs), body, "head")


@pytest.mark.parametrize(
    "model",
    [models.build("resnet8", channels=1, size=8, classes=4), grouped()],
    ids=lambda m: m.name,
)
def test_fisher_information_of_every_kind_of_layer(model: Model) -> None:
    fed = Federation(model, toys.data((3,)), toys.recipe(clients=1), seed=0, dtype=torch.float64)
    flat = fed.new_model()
    assert plain.apart(sample_by_sample(fed, flat, 0), fisher(fed, flat[None])[0]) < 1e-12


# -- limiting cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", ["quantile", "absolute"])
@pytest.mark.parametrize("net", ["tiny", "tiny-bn"])
def test_no_entry_above_the_bar_is_fedavg_bit_for_bit(net: str, threshold: str) -> None:
    one, other = (
        toys.run("feddpa", {"tau": 1.0, "threshold": threshold}, model=net),
        toys.run("fedavg", model=net),
    )
    assert torch.equal(one.state["theta"], other.state["theta"])
    assert torch.equal(toys.everybody(one), toys.everybody(other))


def test_quantile_zero_shares_only_the_least_informative_entries_of_each_tensor() -> None:
    run = toys.run("feddpa", {"tau": 0.0}, dtype=torch.float64, sizes=SIZES)
    information = fisher(run.fed, run.state["last"])
    mask = run.method.mask(run.state, run.fed)
    for s in run.fed.layout:
        part = information[:, s.start : s.stop]
        assert torch.equal(~mask[:, s.start : s.stop], part == part.amin(1, keepdim=True))


def test_a_client_without_samples_has_nothing_personal() -> None:
    run = toys.run("feddpa", {"tau": 0.0})
    empty = run.fed.sizes == 0
    mask = run.method.mask(run.state, run.fed)
    assert not mask[empty].any()
    assert mask[~empty].any(1).all()


def test_phases_move_personal_entries_first_and_shared_ones_then() -> None:
    run = toys.run("feddpa", {"training": "phases", "tau": 0.5}, sizes=SIZES, rounds=2)
    method, fed = run.method, run.fed
    mask = method.mask(run.state, fed)
    start = method.merged(run.state, fed, mask)
    seen = []
    train = fed.train

    def spy(*args: Any, **options: Any) -> Any:
        done = train(*args, **options)
        seen.append(done.theta)
        return done

    fed.train = spy
    method.phases(run.state["theta"], fed, start, mask)
    assert torch.equal(seen[0][~mask], start[~mask])
    assert torch.equal(seen[1][mask], seen[0][mask])
    assert not torch.equal(seen[0], start)
    assert not torch.equal(seen[1], seen[0])


def test_uploaded_updates_are_bounded_and_noise_is_addressed() -> None:
    run = toys.run(
        "feddpa",
        {"training": "phases", "clip": 0.5, "noise": 2.0},
        sizes=SIZES,
        rounds=1,
        dtype=torch.float64,
    )
    quiet = toys.run(
        "feddpa", {"training": "phases", "clip": 0.5}, sizes=SIZES, rounds=1, dtype=torch.float64
    )
    update = 3 * torch.ones(4, run.fed.D, dtype=torch.float64)
    assert torch.allclose(
        quiet.method.guarded(update, quiet.fed).norm(dim=1),
        torch.full((4,), 0.5, dtype=torch.float64),
    )
    noise = run.method.guarded(update, run.fed) - quiet.method.guarded(update, quiet.fed)
    assert noise.std().item() == pytest.approx(2.0 * 0.5 / 4**0.5, rel=0.05)
    with run.fed.among(torch.tensor([2])):
        alone = run.method.guarded(update[2:3], run.fed)
    with run.fed.among(torch.tensor([0, 2])):
        assert torch.equal(run.method.guarded(update[:2], run.fed)[1:], alone)


# -- plain transcriptions --------------------------------------------------------------------------


def bar(part: Tensor, hp: dict[str, Any]) -> Tensor:
    return (
        torch.quantile(part, hp["tau"])
        if hp["threshold"] == "quantile"
        else torch.tensor(hp["tau"])
    )


def transcription(fed: Federation, hp: dict[str, Any], rounds: int) -> tuple[Tensor, list[Tensor]]:
    """FedDPA client by client, everybody in every round."""
    theta, share = fed.new_model().double(), plain.weights(fed, list(range(fed.N)))
    last = [theta] * fed.N
    for t in range(1, rounds + 1):
        goal, ends, updates = plain.named(fed, theta.clone()), [], []
        for i in range(fed.N):
            information, mask = (
                sample_by_sample(fed, last[i], i),
                torch.zeros(fed.D, dtype=torch.bool),
            )
            for s in fed.layout:
                part = information[s.start : s.stop]
                if part.max() > part.min():
                    part = (part - part.min()) / (part.max() - part.min())
                    mask[s.start : s.stop] = part > bar(part, hp)
            end = torch.where(mask, last[i], theta)
            if hp["training"] == "joint":
                end, _ = plain.train(fed, end, i, t)
            else:

                def distance(p: dict[str, Tensor], goal: dict[str, Tensor] = goal) -> Tensor:
                    return sum(torch.norm(p[name] - goal[name]) for name in p)

                def near(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
                    return plain.cross_entropy(p, x, y) + hp["lam1"] / 2 * distance(p)

                def at_clip(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
                    return plain.cross_entropy(p, x, y) + hp["lam2"] / 2 * torch.abs(
                        distance(p) - hp["clip"]
                    )

                end, _ = plain.train(fed, end, i, t, trainable=mask, loss=near)
                end, _ = plain.train(
                    fed, end, i, t, trainable=~mask, loss=at_clip, first=fed.protocol.epochs
                )
            ends.append(end)
            update = end - theta
            updates.append(
                update
                if hp["training"] == "joint"
                else update / max(1.0, update.norm().item() / hp["clip"])
            )
        theta, last = (
            theta + sum(p * update for p, update in zip(share, updates, strict=True)),
            ends,
        )
    return theta, last


@pytest.mark.parametrize(
    "hp",
    [
        {"tau": 0.4, "threshold": "quantile", "training": "joint"},
        {"tau": 0.1, "threshold": "absolute", "training": "joint"},
        {
            "tau": 0.6,
            "threshold": "quantile",
            "training": "phases",
            "lam1": 0.3,
            "lam2": 0.2,
            "clip": 0.4,
        },
        {
            "tau": 0.05,
            "threshold": "absolute",
            "training": "phases",
            "lam1": 0.1,
            "lam2": 0.05,
            "clip": 0.5,
        },
    ],
    ids=str,
)
def test_feddpa_follows_its_plain_transcription(hp: dict[str, Any]) -> None:
    run = toys.run("feddpa", hp, sizes=SIZES, dtype=torch.float64, chunk=2)
    theta, last = transcription(run.fed, hp, 3)
    assert plain.apart(theta, run.state["theta"]) < 1e-9
    assert max(plain.apart(a, b) for a, b in zip(last, run.state["last"], strict=True)) < 1e-9


@pytest.mark.parametrize("training", ["joint", "phases"])
def test_feddpa_bills_the_whole_model_both_ways(training: str) -> None:
    run = toys.run("feddpa", {"training": training}, model="tiny-bn", sizes=toys.EQUAL)
    for way in ("up", "down"):
        assert toys.traffic(run, f"{way}_values") == [4 * 4 * run.fed.layout.parameters] * 3
        assert toys.traffic(run, f"{way}_codes") == [0] * 3


@pytest.mark.parametrize(
    "promise", [contract.finite, contract.chunk_free, contract.billed, contract.resumable]
)
def test_phases_keep_the_contract(promise: Any) -> None:
    promise(
        contract.Situation(
            "feddpa",
            "tiny-bn",
            0.5,
            (("training", "phases"), ("threshold", "absolute"), ("noise", 1.0)),
        )
    )
