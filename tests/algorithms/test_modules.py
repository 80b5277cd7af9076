"""Plain modules as models: the same numbers, the same reproducibility, and refusals in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repfl.algorithms import models
from repfl.algorithms.engine.model import Model, ModelError
from repfl.algorithms.engine.rng import Streams
from repfl.bench.check.toy_model import EveryKind
from repfl.bench.errors import one_line
from tests.algorithms import toys


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
def known() -> Iterator[Callable[..., Model]]:
    """Registers a builder for the length of a test."""
    before = dict(models.MODELS)

    def make(builder: Callable[[int, int, int], nn.Module], classes: int = 4) -> Model:
        models.register("theirs")(builder)
        made = models.build("theirs", channels=1, size=8, classes=classes)
        assert isinstance(made, Model)
        return made

    yield make
    models.MODELS.clear()
    models.MODELS.update(before)


def test_every_tensor_has_its_kind_and_the_head_comes_last(known: Callable[..., Model]) -> None:
    assert [(s.name, s.kind, s.head) for s in known(Net).params] == [
        ("stem.weight", "conv", False),
        ("norm.weight", "norm", False),
        ("norm.bias", "norm", False),
        ("norm.running_mean", "stat", False),
        ("norm.running_var", "stat", False),
        ("late.weight", "norm", False),
        ("late.bias", "norm", False),
        ("fc.weight", "linear", True),
        ("fc.bias", "bias", True),
    ]


def test_a_step_is_the_modules_own_step_statistics_included(known: Callable[..., Model]) -> None:
    net, plain = known(Net), Net(1, 8, 4)
    x, y = noise(5, 1, 8, 8), torch.arange(5) % 4
    state = plain.state_dict()
    tensors = net.params.unflatten(net.params.flatten({s.name: state[s.name] for s in net.params}))
    for s in net.params.trained:
        tensors[s.name].requires_grad_()
    F.cross_entropy(net.bind(tensors, training=True)(x), y).backward()
    F.cross_entropy(plain.train()(x), y).backward()
    theirs = dict(plain.named_parameters())
    for s in net.params:
        if s.kind == "stat":
            torch.testing.assert_close(tensors[s.name], plain.state_dict()[s.name])
        else:
            torch.testing.assert_close(tensors[s.name].grad, theirs[s.name].grad)


@pytest.mark.parametrize("method", ["fedap", "floco", "pfedfda"])
def test_methods_that_look_into_a_model_run_on_a_plain_module(
    method: str, known: Callable[..., Model]
) -> None:
    hp = {"pretrain_epochs": 2} if method == "fedap" else {}
    run = toys.run(method, hp, model=known(Net), sizes=(9, 6, 8), rounds=1)
    assert all(t.isfinite().all() for t in run.state.values() if t.is_floating_point())


COUNTING = nn.InstanceNorm2d(1, track_running_stats=True)
UNDECIDED = nn.BatchNorm2d(1, momentum=None)


def flat(classes: int) -> tuple[nn.Module, nn.Module]:
    return nn.Flatten(), nn.Linear(64, classes)


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        (lambda c, s, k: nn.Flatten(), "its head is the last nn.Linear"),
        (lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Linear(64, k, bias=False)), "and a bias"),
        (lambda c, s, k: nn.Sequential(*flat(7)), r"valid: \[2, 4\]"),
        (lambda c, s, k: nn.Sequential(nn.Flatten(), nn.Linear(9, k)), "does not take inputs"),
        (lambda c, s, k: nn.Sequential(*flat(k), nn.Softmax(1)), "does something after its last"),
        (lambda c, s, k: nn.Sequential(UNDECIDED, *flat(k)), "needs a momentum"),
        (
            lambda c, s, k: nn.Sequential(COUNTING, *flat(k)),
            "changes its buffer '0.running_mean' in training",
        ),
        (lambda c, s, k: "net", "is no nn.Module"),
    ],
)
def test_what_cannot_be_a_model_is_refused_in_one_line(
    builder: Callable[[int, int, int], nn.Module], words: str, known: Callable[..., Model]
) -> None:
    with pytest.raises(ModelError, match=words) as refusal:
        known(builder)
    assert "\n" not in str(refusal.value)


def dropout(channels: int, size: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(channels * size**2, classes))


@pytest.mark.parametrize("builder", [EveryKind, dropout])
def test_a_users_module_trains_in_both_backends_and_resumes_with_the_same_bits(
    builder: Callable[[int, int, int], nn.Module], known: Callable[..., Model]
) -> None:
    how: dict[str, Any] = {"model": known(builder), "sizes": (9, 16, 16, 8), "dtype": torch.float64}
    whole, stacked = (toys.run("fedper", stack=stack, **how) for stack in (1, 4))
    assert toys.gap(whole.state, stacked.state) < 1e-9
    end = {name: value.clone() for name, value in whole.state.items()}
    halfway = toys.run("fedper", rounds=1, **how).snapshot()
    whole.restore({name: value.clone() for name, value in halfway.items()})
    assert not whole.done
    while not whole.done:
        whole.step()
    assert all(torch.equal(value, whole.state[name]) for name, value in end.items())


class Recurrent(nn.Module):
    """Reads an image row by row."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.rnn = nn.LSTM(channels * size, 6, batch_first=True)
        self.fc = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.rnn(x.flatten(1, 2))[0][:, -1])


def test_recurrent_layers_train_clients_alone_and_say_so(known: Callable[..., Model]) -> None:
    net = known(Recurrent)
    alone = toys.run("fedavg", model=net, rounds=1, dtype=torch.float64)
    with pytest.warns(UserWarning, match="'theirs' has recurrent layers: clients train one at"):
        stacked = toys.run("fedavg", model=net, rounds=1, stack=6, dtype=torch.float64)
    assert torch.equal(alone.state["theta"], stacked.state["theta"])
    assert not torch.equal(alone.state["theta"], alone.fed.new_model())


@pytest.mark.filterwarnings("ignore:model 'plain' has recurrent layers")
@pytest.mark.parametrize("method", ["fedavg", "fedper+dp", "scaffold+dp", "ditto+dp"])
def test_a_recurrent_model_trains_by_any_method(method: str) -> None:
    run = toys.run(
        method, model=toys.module(Recurrent(1, 8, 4)), stack=6, rounds=2, epochs=None, steps=3
    )
    assert torch.isfinite(toys.everybody(run)).all()


def test_statistics_have_no_gradient_and_the_message_says_what_has() -> None:
    fed = toys.run("fedavg", model="tiny-bn", rounds=1).fed
    tensors = {
        s.name: t
        for s, t in zip(fed.params, fed.params.unflatten(fed.new_model()).values(), strict=True)
    }
    x = noise(4, 1, 8, 8)
    assert torch.equal(fed.model.of(fed.new_model())(x), fed.model.bind(tensors)(x))
    for tensor in tensors.values():
        tensor.requires_grad_()
    with pytest.raises(RuntimeError) as refused:
        fed.model.bind(tensors)(x)
    assert "of the tensors in `fed.params.trained`" in one_line(refused.value)


def test_a_vector_has_gradients_but_for_its_batch_norm_statistics(
    known: Callable[..., Model],
) -> None:
    """As a server needs that distils into one vector."""
    model = known(Net)
    vector = model.initial(Streams(0)).requires_grad_(True)
    logits = model.of(vector)(noise(5, 1, 8, 8))
    (gradient,) = torch.autograd.grad(logits.square().sum(), vector)
    stats = model.params.where(kind="stat")
    assert (gradient[stats] == 0).all()
    assert (gradient[~stats] != 0).double().mean() > 0.9
