"""Plug-ins that are written with the documentation alone, and names that clash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Entry, Method, MethodError, State, build, register
from repfl.algorithms.core.wrapper import compose
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.ifca import IFCA
from repfl.bench.check import contract
from repfl.bench.grid import plugins
from tests.algorithms import toys

EXAMPLES = Path(__file__).resolve().parents[2] / "bench" / "examples"
FACTS: dict[str, Any] = {"title": "Mine", "paper": "none", "year": 2026, "sends": "as FedAvg"}


@pytest.fixture
def feddf() -> None:
    plugins.load([str(EXAMPLES / "feddf.py")])


@pytest.fixture
def unreliable() -> None:
    plugins.load([str(EXAMPLES / "unreliable.py")])


@pytest.mark.usefixtures("feddf")
def test_without_distillation_feddf_is_fedavg() -> None:
    for model in ("tiny", "tiny-bn"):
        one, two = toys.run("feddf", {"steps": 0}, model=model), toys.run("fedavg", model=model)
        assert torch.equal(one.state["theta"], two.state["theta"])


@pytest.mark.usefixtures("feddf")
def test_feddf_moves_the_average_towards_the_ensemble() -> None:
    """The divergence from the teachers is what descends, on the public samples."""
    average, distilled = (
        toys.run("feddf", {"steps": steps, "batch": 12}, rounds=1, dtype=torch.float64)
        for steps in (0, 40)
    )
    fed, teachers = average.fed, average.fed.trained
    assert teachers is not None
    targets = torch.stack([fed.model.of(w)(fed.public) for w in teachers]).mean(0).softmax(1)

    def divergence(theta: Tensor) -> float:
        said = fed.model.of(theta)(fed.public).log_softmax(1)
        return float(F.kl_div(said, targets, reduction="batchmean"))

    before, after = divergence(average.state["theta"]), divergence(distilled.state["theta"])
    assert 0 < after < 0.8 * before


@pytest.mark.usefixtures("feddf")
@pytest.mark.parametrize("promise", ["stacked", "unsent", "unreceived", "device"])
def test_feddf_keeps_the_contract(promise: str) -> None:
    said = [wrong for *_, wrong in contract.check("feddf", [getattr(contract, promise)])]
    assert said == [""] * 2


class SharedBody(IFCA):
    """IFCA whose clusters share their body: only heads are several."""

    def aggregate(self, fed: Federation, theta: Tensor, uploaded: Tensor, chosen: Tensor) -> Tensor:
        heads = super().aggregate(fed, theta, uploaded, chosen)
        return torch.where(fed.communicated & fed.params.body, fed.mean(uploaded), heads)


def test_clusters_may_share_their_body() -> None:
    run = toys.run(SharedBody(IFCA.HP(clusters=3)), model="tiny-bn", sizes=(24, 24, 24, 24))
    theta, body = run.state["theta"], run.fed.communicated & run.fed.params.body
    assert torch.equal(theta[0, body], theta[1, body])
    assert not torch.equal(theta[0, run.fed.params.head], theta[1, run.fed.params.head])
    one = toys.run(SharedBody(IFCA.HP(clusters=1)), model="tiny-bn", rounds=2)
    fedavg = toys.run("fedavg", model="tiny-bn", rounds=2)
    assert toys.gap({"": one.state["theta"][0]}, {"": fedavg.state["theta"]}) < 1e-6


@pytest.mark.usefixtures("unreliable")
@pytest.mark.parametrize("promise", ["stacked", "billed", "unsent", "unreceived", "device"])
def test_unreliable_keeps_the_contract(promise: str) -> None:
    said = [wrong for *_, wrong in contract.check("unreliable", [getattr(contract, promise)])]
    assert said == [""] * 2


@pytest.mark.usefixtures("unreliable")
def test_lost_clients_receive_but_send_nothing_and_others_train_for_unequal_epochs() -> None:
    how: dict[str, Any] = {"rounds": 4, "dtype": torch.float64, "epochs": 3, "participation": 0.67}
    run = toys.run("unreliable", {"lost": 0.5}, **how)
    fed, theta = run.fed, run.fed.new_model()
    uploads, trained = [], set()
    for round_ in range(1, 5):
        fed.begin(round_)
        draws = {client: fed.rng("lost", client).random() for client in fed.active_ids}
        stay = [client for client, draw in draws.items() if draw >= 0.5]
        epochs = [int(fed.rng("epochs", client).integers(1, 4)) for client in stay]
        uploads.append(len(stay))
        trained |= set(epochs)
        sizes = torch.tensor([fed.samples[client] for client in stay], dtype=fed.dtype)
        ends = []
        for client, length in zip(stay, epochs, strict=True):
            with fed.as_active([client]):
                ends.append(fed.train(theta[None], epochs=length)[0])
        theta = (sizes / sizes.sum()) @ torch.stack(ends) if ends else theta
    assert toys.gap({"": theta}, {"": run.state["theta"]}) < 1e-9
    assert toys.traffic(run, "up_values") == [4 * fed.D * count for count in uploads]
    assert toys.traffic(run, "down_values") == [4 * fed.D * fed.K] * 4
    assert 0 < min(uploads) < max(uploads) < fed.K + 1
    assert len(trained) > 1
    first = fed.count_correct(fed.new_model().expand(fed.K, -1), "train")[0].sum()
    assert fed.count_correct(theta.expand(fed.K, -1), "train")[0].sum() > first


@pytest.mark.usefixtures("unreliable")
def test_reliable_clients_are_those_of_fedavg_and_without_any_the_model_stays() -> None:
    how: dict[str, Any] = {"rounds": 2, "epochs": 2, "model": "tiny-bn"}
    fedavg = toys.run("fedavg", **how)
    assert torch.equal(
        toys.run("unreliable", {"lost": 0.0, "least": 9}, **how).state["theta"],
        fedavg.state["theta"],
    )
    nobody = toys.run("unreliable", {"lost": 1.0}, **how)
    assert torch.equal(nobody.state["theta"], nobody.fed.new_model())
    assert toys.traffic(nobody, "up_values") == [0, 0]


class Uneven(FedAvg):
    """Every client trains for one to three epochs, by a draw of its own."""

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        epochs = [int(fed.rng("epochs", client).integers(1, 4)) for client in fed.active_ids]
        return fed.train(params, epochs=epochs)


def test_clients_train_for_epochs_of_their_own() -> None:
    how: dict[str, Any] = {"rounds": 2, "dtype": torch.float64}
    one, two = (toys.run(Uneven(), stack=stack, **how) for stack in (1, 6))
    assert toys.gap(one.state, two.state) < 1e-9
    fed = one.fed
    start = fed.new_model().expand(fed.N, -1)
    mixed = fed.train(start, epochs=[1, 2, 3, 1, 2, 3])
    for client, epochs in enumerate([1, 2, 3, 1, 2, 3]):
        with fed.as_active([client]):
            assert torch.equal(mixed[client], fed.train(start[:1], epochs=epochs)[0])
    with pytest.raises(ValueError, match="shorter"):
        fed.train(start, epochs=[1, 2])


# -- names that clash ------------------------------------------------------------------------------


def test_a_name_that_is_something_else_in_fedavg_is_refused() -> None:
    with pytest.raises(MethodError, match=r"Mine.merge replaces FedAvg.merge\(self, state"):

        @register("mine", family="global", **FACTS)
        class Mine(FedAvg):
            def merge(self, one: Tensor) -> Tensor:  # type: ignore[override]
                return one

    with pytest.raises(MethodError, match=r"Kept.keep replaces FedAvg.keep\(self, state"):

        @register("kept", family="global", **FACTS)
        class Kept(FedAvg):
            keep = 0.5  # type: ignore[assignment]

    @register("free", family="global", **FACTS)
    class Free(FedAvg):
        def update(self, anything: Tensor) -> Tensor:
            return anything

        def round(self, state: State, fed: Federation, also: int = 0) -> State:
            return super().round(state, fed)

    assert isinstance(build("free"), Free)


def test_a_wrapper_and_a_method_with_the_same_name_are_refused() -> None:
    class Protected(FedAvg):
        def protected(self) -> None:
            """What `dp` has under this name is another function."""

    facts = {"family": "global", **FACTS}
    with pytest.raises(MethodError, match="mine and dp both define 'protected'"):
        compose("mine+dp", Entry("mine", cls=Protected, **facts))
    assert isinstance(build("fedavg+dp"), Method)
