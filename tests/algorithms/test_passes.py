"""Every loop over samples with more than one step, and clients that need fewer steps than others:
what is computed is that of the samples one by one.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from inspect import getsource, signature

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.federation import PASS_BATCH, Federation
from repfl.algorithms.core.method import methods
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.evaluate import BATCH, Mixture, count_correct
from repfl.algorithms.engine.optimiser import OPTIMISERS, Optimiser
from repfl.algorithms.math.class_stats import class_statistics
from repfl.algorithms.math.fisher import fisher
from repfl.bench.check.situation import gap, situations
from tests.algorithms import toys

SIZES = (PASS_BATCH + 3, 7, 0, 2 * PASS_BATCH + 40, 1)


@pytest.fixture(scope="module")
def long() -> ClientData:
    """Clients with samples for one, two and three steps, and with none."""
    return toys.data(SIZES)


def federation(held: ClientData, stack: int = 1, name: str = "tiny-bn") -> Federation:
    net = models.build(name, channels=1, size=8, classes=held.classes)
    recipe = toys.recipe(clients=held.clients)
    fed = Federation(net, held, recipe, seed=3, dtype=torch.float64, stack=stack)
    fed.begin(1)
    return fed


def client_models(fed: Federation) -> torch.Tensor:
    """A model for each client, all different  [K, D]."""
    return torch.stack([fed.new_model(client) for client in range(fed.N)])


def logits_of(fed: Federation, theta: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """One sample at a time."""
    views = fed.params.views(theta)
    with torch.no_grad():
        rows = [fed.model.bind(views)(fed.data.inputs(each[None])) for each in index]
    return torch.cat(rows) if rows else torch.zeros(0, fed.data.classes, dtype=torch.float64)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("width", [1, 3, 32])
def test_scores_are_those_of_samples_one_by_one(long: ClientData, width: int, mixed: bool) -> None:
    assert max(SIZES) > 2 * BATCH
    fed = federation(long)
    theta, other = client_models(fed), client_models(fed).flip(0)
    labels = fed.data.labels.clone()  # what pads a short list is sample 0: here it would be a hit
    labels[0] = logits_of(fed, theta[1], torch.tensor([0])).argmax()
    fed.data = replace(fed.data, labels=labels)
    share = torch.linspace(0.2, 0.8, fed.N, dtype=torch.float64)
    scored = Mixture(((share, theta), (1 - share, other))) if mixed else theta
    kept: list[list[torch.Tensor]] = [[] for _ in range(fed.N)]
    correct = count_correct(fed.model, scored, fed.data, fed.data.train, width, kept)
    for client, index in enumerate(fed.data.train):
        logits = logits_of(fed, theta[client], index)
        if mixed:
            logits = share[client] * logits + (1 - share[client]) * logits_of(
                fed, other[client], index
            )
        assert correct[client] == (logits.argmax(1) == fed.data.labels[index]).sum()
        whole = torch.cat(kept[client]) if kept[client] else logits
        torch.testing.assert_close(whole, logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stack", [1, 5])
def test_statistics_are_sums_over_all_samples(long: ClientData, stack: int) -> None:
    fed = federation(long, stack)
    theta = client_models(fed)
    found = class_statistics(fed, theta)
    information = fisher(fed, theta)
    for client in (0, 1, 2, 3):
        index, views = fed.data.train[client], fed.params.views(theta[client])
        labels = fed.data.labels[index]
        assert found.count[client].tolist() == [int((labels == c).sum()) for c in range(4)]
        if not len(index):
            assert not information[client].any()
            continue
        with torch.no_grad():
            features = fed.model.bind(views).features(fed.data.inputs(index))
        for c in range(4):
            rows = features[labels == c]
            torch.testing.assert_close(found.total[client, c], rows.sum(0))
            torch.testing.assert_close(found.square[client, c], rows.square().sum())
    longest = fed.data.train[3]
    pieces = longest.split(100)  # each of a single step
    together = torch.zeros(fed.D, dtype=torch.float64)
    for piece in pieces:
        alone = replace(fed.data, train=[piece], test=[piece], val=[piece[:0]])
        together += len(piece) * fisher(federation(alone, stack), theta[3:4])[0]
    torch.testing.assert_close(information[3], together / len(longest))


def passing() -> list[str]:
    """Methods that pass over clients' samples to gather statistics."""
    texts = {name: getsource(sys.modules[each.cls.__module__]) for name, each in methods().items()}
    words = ("for_each_batch", "class_statistics(", "fisher(")
    return [name for name in sorted(texts) if any(word in texts[name] for word in words)]


@pytest.mark.parametrize("name", passing())
def test_a_method_computes_the_same_however_its_passes_are_cut(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of a contract have few samples: here a pass takes seven of them in a step."""
    *_, case = situations(name)
    options = {"fedobp": (("score", "fisher"),), "pfeddst": (("degree", 2),)}.get(name, case.hp)
    case = replace(case, hp=options)
    whole = case.run()
    defaults = dict(Federation.for_each_batch.__kwdefaults__)
    assert "batch" in signature(Federation.for_each_batch).parameters
    monkeypatch.setattr(Federation.for_each_batch, "__kwdefaults__", defaults | {"batch": 7})
    assert gap(whole.state, case.run().state) < 1e-9


def test_images_are_normalised_as_their_own_recipe_says_whoever_came_before() -> None:
    held = toys.data()
    scales = [(1 / 255, -0.5), (1 / 16, 0.25), (1 / 255, -0.5), (1 / 255, 0.5), (1 / 16, -0.5)]
    index = torch.cat([held.train[0], held.test[1]])
    pixels = held.images[index].permute(0, 3, 1, 2).double()
    for scale, shift in scales:
        this = replace(held, scale=torch.full((1,), scale), shift=torch.full((1,), shift))
        for dtype in (torch.float64, torch.float32):
            there = this.to(torch.device("cpu"), dtype)
            expected = pixels * torch.tensor(scale).double() + shift
            torch.testing.assert_close(there.inputs(index).double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.02)])
def test_a_protocol_s_options_reach_every_optimiser_zeros_too(
    name: str, momentum: float, decay: float
) -> None:
    """PyTorch's own defaults, such as AdamW's weight decay, never act."""
    taken = signature(OPTIMISERS[name]).parameters
    given = {"momentum": momentum if "momentum" in taken else 0.0}
    given |= {"weight_decay": decay if "weight_decay" in taken else 0.0}
    options = {"nesterov": False} if "nesterov" in taken else {}
    weight = torch.ones(3, 3, requires_grad=True)
    built = Optimiser(0.125, name=name, options=options, **given).build([weight])
    for field, value in {"lr": 0.125, **given}.items():
        if field in taken:
            assert float(built.defaults[field]) == value
