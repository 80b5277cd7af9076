"""Plain modules as models: the same numbers, the same reproducibility, and refusals in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repfl.algorithms import models
from repfl.algorithms.core.fisher import fisher
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.model import ModelError
from repfl.algorithms.core.modules import PlainModel
from repfl.algorithms.core.ops import Mode
from repfl.algorithms.core.rng import Streams
from repfl.algorithms.core.run import Run
from repfl.bench.trust.toys import toy_data, toy_recipe


class Net(nn.Module):
    """Every kind of tensor, and a constant."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("offset", torch.full((1,), 0.5))
        self.stem = nn.Conv2d(channels, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * size * size, classes)
        self.late = nn.LayerNorm(4 * size * size)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x + self.offset)).relu()
        return self.fc(self.late(x.flatten(1)))


def noise(*shape: int) -> Tensor:
    return torch.from_numpy(Streams(0).at("x").random(shape)).float()


@pytest.fixture
def known() -> Iterator[Callable[..., PlainModel]]:
    """Registers a builder for the length of a test."""
    before = dict(models.MODELS)

    def make(builder: Callable[[int, int, int], nn.Module], classes: int = 4) -> PlainModel:
        models.register("theirs")(builder)
        made = models.build("theirs", channels=1, size=8, classes=classes)
        assert isinstance(made, PlainModel)
        return made

    yield make
    models.MODELS.clear()
    models.MODELS.update(before)


def test_every_tensor_has_its_kind_and_the_head_comes_last(
    known: Callable[..., PlainModel],
) -> None:
    assert [(s.name, s.kind, s.head) for s in known(Net).layout] == [
        ("stem.weight", "conv", False),
        ("norm.weight", "norm", False),
        ("norm.bias", "norm", False),
        ("norm.mean", "stat", False),
        ("norm.var", "stat", False),
        ("late.weight", "norm", False),
        ("late.bias", "norm", False),
        ("fc.weight", "linear", True),
        ("fc.bias", "bias", True),
    ]


def test_a_step_is_the_modules_own_step_statistics_included(
    known: Callable[..., PlainModel],
) -> None:
    net, plain = known(Net), Net(1, 8, 4)
    x, y = noise(5, 1, 8, 8), torch.arange(5) % 4
    state = {**dict(plain.named_parameters()), **dict(plain.named_buffers())}
    flat = torch.cat([state[net._theirs[s.name]].detach().flatten() for s in net.layout])
    params = {
        name: value if net.layout[name].kind == "stat" else value.requires_grad_()
        for name, value in net.layout.split(flat[None]).items()
    }
    loss = F.cross_entropy(net.logits(params, x[None], Mode(train=True))[0], y)
    loss.backward()
    F.cross_entropy(plain.train()(x), y).backward()
    for s in net.layout:
        theirs = state[net._theirs[s.name]]
        mine = params[s.name][0] if s.kind == "stat" else params[s.name].grad[0]  # type: ignore[index]
        torch.testing.assert_close(mine, theirs if s.kind == "stat" else theirs.grad)


def test_several_clients_with_padding_compute_what_single_ones_do(
    known: Callable[..., PlainModel],
) -> None:
    net = known(Net)
    flat = torch.stack([net.initial(Streams(0), client) for client in range(2)])
    assert not torch.equal(*flat)
    x = noise(2, 5, 1, 8, 8)
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    together = net.layout.split(flat)
    out = net.logits(together, x, Mode(train=True, valid=valid))
    for client, count in enumerate((5, 3)):
        alone = net.layout.split(flat[client : client + 1])
        own = net.logits(alone, x[client : client + 1, :count], Mode(train=True))
        torch.testing.assert_close(out[client, :count], own[0])
        torch.testing.assert_close(together["norm.mean"][client], alone["norm.mean"][0])


def test_initial_values_depend_on_the_seed_alone(known: Callable[..., PlainModel]) -> None:
    net, before = known(Net), torch.get_rng_state()
    assert torch.equal(net.initial(Streams(1)), net.initial(Streams(1)))
    assert not torch.equal(net.initial(Streams(1)), net.initial(Streams(2)))
    assert torch.equal(before, torch.get_rng_state())


def test_one_sample_leaves_the_statistics_alone(known: Callable[..., PlainModel]) -> None:
    net = known(Net)
    params = net.layout.split(net.initial(Streams(0))[None])
    assert net.logits(params, torch.ones(1, 1, 1, 8, 8), Mode(train=True)).isfinite().all()
    assert not params["norm.mean"].any()


@pytest.mark.parametrize("method", sorted(methods()))
def test_every_method_runs_on_a_plain_module(method: str, known: Callable[..., PlainModel]) -> None:
    data = toy_data((9, 6, 8))
    net = known(Net, data.classes)
    hp = {"pretrain_epochs": 2} if method == "fedap" else {}
    run = Run(build(method, hp), toy_recipe(clients=3, rounds=1), data, net, seed=0)
    run.start()
    run.step()
    assert all(t.isfinite().all() for t in run.state.values() if t.is_floating_point())


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        (lambda c, s, k: nn.Flatten(), "its head is the last nn.Linear"),
        (lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Linear(64, k, bias=False)), "and a bias"),
        (lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), r"valid: \[2, 4\]"),
        (lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Linear(9, k)), "does not take inputs"),
        (
            lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Linear(64, k), nn.Softmax(1)),
            "does something after its last linear layer",
        ),
        (
            lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(64, k)),
            "draws random numbers",
        ),
        (
            lambda c, s, k: nn.Sequential(
                nn.BatchNorm2d(1, momentum=None), nn.Flatten(), nn.Linear(64, k)
            ),
            "needs a momentum",
        ),
        (lambda c, s, k: "net", "is no nn.Module"),
    ],
)
def test_what_cannot_be_a_model_is_refused_in_one_line(
    builder: Callable[[int, int, int], nn.Module], words: str, known: Callable[..., PlainModel]
) -> None:
    with pytest.raises(ModelError, match=words) as refusal:
        known(builder)
    assert "\n" not in str(refusal.value)


def test_a_name_is_taken_once(known: Callable[..., PlainModel]) -> None:
    known(Net)
    with pytest.raises(ModelError, match="twice"):
        models.register("tiny")(Net)
    assert models.build("tiny", channels=1, size=8, classes=4).stacked


def test_the_fisher_information_is_that_of_stacked_layers(known: Callable[..., PlainModel]) -> None:
    class Tiny(nn.Module):
        """The stacked `tiny`, of PyTorch's own layers."""

        def __init__(self, channels: int, size: int, classes: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, 8, 3)
            self.fc1 = nn.Linear(8 * ((size - 2) // 2) ** 2, 32)
            self.fc2 = nn.Linear(32, classes)

        def forward(self, x: Tensor) -> Tensor:
            x = F.max_pool2d(self.conv1(x).relu(), 2)
            return self.fc2(self.fc1(x.flatten(1)).relu())

    data = toy_data((9, 6, 8))
    ours = models.build("tiny", channels=1, size=8, classes=data.classes)
    both = [
        Run(build("fedavg"), toy_recipe(clients=3), data, net, seed=0).fed
        for net in (ours, known(Tiny, data.classes))
    ]
    w = ours.initial(Streams(0)).expand(3, -1).contiguous()
    torch.testing.assert_close(*(fisher(fed, w) for fed in both))
