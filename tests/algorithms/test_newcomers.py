"""Clients that join when all rounds are over: what they are given, and what they make of it.

That every method lets them join is a part of the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, MethodError, State, build
from repfl.algorithms.core.run import Diverged, Run
from repfl.algorithms.core.subfederations import newcomer_federation
from repfl.algorithms.ditto import Ditto
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.evaluate import Mixture
from tests.algorithms import toys

STAY, LATE = (0, 1, 3), (4, 5)


def part(data: ClientData, clients: tuple[int, ...]) -> ClientData:
    """Some of the toy clients."""
    parts = {name: getattr(data, name) for name in ("train", "test", "val")}
    return replace(data, **{k: [held[client] for client in clients] for k, held in parts.items()})


def fresh(method: str | Method, *, late: bool = True, model: str = "tiny", **hp: Any) -> Run:
    """Three clients, and two that join; not begun."""
    whole = toys.data()
    rule = build(method, hp) if isinstance(method, str) else method
    net = models.build(model, channels=1, size=8, classes=whole.classes)
    newcomers = part(whole, LATE) if late else None
    recipe = toys.recipe(clients=3, epochs=3)  # unseen clients have two
    return Run(rule, recipe, part(whole, STAY), net, newcomers=newcomers, seed=0)


def finished(*args: Any, **options: Any) -> Run:
    run = fresh(*args, **options)
    run.start()
    while not run.done:
        run.step()
    return run


def joined(run: Run) -> tuple[Tensor, Federation]:
    """The newcomers' models, and their federation."""
    assert run.newcomers is not None
    late = newcomer_federation(run.fed, run.newcomers)
    found = run.method.newcomer_params(run.state, late)
    assert found is not None
    assert not isinstance(found, Mixture)
    return found, late


def curves(run: Run) -> list[tuple[int, str, float]]:
    return [row for row in run.rows if not row[1].startswith(("time/", "newcomers/"))]


def test_newcomers_are_scored_once_and_change_nothing_of_the_others() -> None:
    alone, watched = finished("fedper", late=False), finished("fedper")
    assert curves(alone) == curves(watched)
    assert all(torch.equal(alone.state[name], watched.state[name]) for name in alone.state)
    scored = [(round_, name) for round_, name, _ in watched.rows if name.startswith("newcomers/")]
    assert {round_ for round_, _ in scored} == {watched.fed.rounds}
    assert (watched.fed.rounds, "newcomers/mean") in scored
    counts = [row for row in watched.counts if row[1] == "newcomers"]
    assert [row[2] for row in counts] == [0, 1]


def test_they_have_the_epochs_that_the_recipe_grants_them() -> None:
    run = finished("fedavg-ft")
    assert run.newcomers is not None
    late = newcomer_federation(run.fed, run.newcomers)
    assert (run.fed.epochs, late.epochs, late.N) == (3, 2, 2)
    assert late.round == run.fed.rounds
    assert late.data.images is run.fed.data.images


class Exploding(Ditto):
    """A method whose newcomers diverge."""

    def newcomer_params(self, state: State, fed: Federation) -> torch.Tensor:
        return fed.new_models() * torch.nan


@pytest.mark.parametrize("method", ["fedamp", "fedfomo"])
def test_who_never_took_part_is_no_part_of_what_newcomers_are_given(method: str) -> None:
    run = toys.run(method, participation=0.25, rounds=1)
    seen = run.state["seen"]
    assert 0 < seen.sum() < len(seen)
    given = run.method.newcomer_init(run.state, run.fed)
    assert torch.equal(given, run.state["w"][seen].mean(0))


def test_newcomers_that_diverge_end_the_run() -> None:
    with pytest.raises(Diverged):
        finished(Exploding())


class Closed(Method):
    """A method whose clients nobody can join."""

    def init(self, fed: Federation) -> State:
        return {"own": fed.new_models().clone()}

    def round(self, state: State, fed: Federation) -> State:
        return {"own": fed.train(state["own"])}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["own"][fed.active]

    def newcomer_params(self, state: State, fed: Federation) -> None:
        """Nobody can."""


class Silent(Closed):
    """One that does not say what newcomers are given."""

    newcomer_params = Method.newcomer_params


def test_where_joining_has_no_meaning_nobody_is_scored() -> None:
    assert not [name for _, name, _ in finished(Closed()).rows if name.startswith("newcomers")]


def test_a_method_that_does_not_say_what_newcomers_are_given_is_told() -> None:
    with pytest.raises(MethodError, match="Silent must say what unseen clients start from"):
        finished(Silent())


def test_local_statistics_of_a_global_model_settle_on_the_newcomers_data() -> None:
    run = finished("fedavg", model="tiny-bn")
    models, late = joined(run)
    learnable, stats = late.params.learnable, late.params.stats
    assert torch.equal(models[:, learnable], run.state["theta"][learnable].expand(2, -1))
    assert not torch.equal(models[0, stats], models[1, stats])


def mean(run: Run, late: Federation) -> Tensor:
    return run.state["w"].mean(0)


def body_and_initial_head(run: Run, late: Federation) -> Tensor:
    return torch.where(late.params.head, late.new_model(), run.state["theta"])


def body_by_mass(run: Run, late: Federation) -> Tensor:
    body = (run.state["mu"][:, None] * run.state["w"].double()).sum(0) / run.state["mu"].sum()
    return torch.where(late.params.head, late.new_model().double(), body)


def mean_of_seen_heads(run: Run, late: Federation) -> Tensor:
    everybody = run.method.client_params(run.state, run.fed)
    return torch.where(late.params.head, everybody.mean(0), run.state["theta"])


@pytest.mark.parametrize(
    ("name", "hp", "expected"),
    [
        ("local", {}, lambda run, late: late.new_model()),
        ("dfedavgm", {}, mean),
        ("fedpurin", {}, mean),
        ("fedper", {}, body_and_initial_head),
        ("dfedpgp", {"degree": 1}, body_by_mass),
        ("fedpac", {"model": "tiny-bn"}, mean_of_seen_heads),
    ],
)
def test_newcomers_start_from(
    name: str, hp: dict[str, Any], expected: Callable[[Run, Federation], Tensor]
) -> None:
    run = finished(name, **hp)
    models, late = joined(run)
    offered, wanted = run.method.newcomer_init(run.state, late), expected(run, late)
    torch.testing.assert_close(offered, wanted.to(offered), rtol=1e-5, atol=1e-6)
    assert not torch.equal(models[0], models[1])  # and they train


@pytest.mark.parametrize(("name", "hp"), [("fedrep", {}), ("fedbabu", {"part": "head"})])
def test_where_only_heads_are_fitted_the_body_stays(name: str, hp: dict[str, Any]) -> None:
    run = finished(name, **hp)
    models, late = joined(run)
    body = ~late.params.head
    assert torch.equal(models[:, body], run.state["theta"][body].expand(2, -1))
    assert not torch.equal(models[0, ~body], models[1, ~body])


def test_a_newcomer_of_dis_pfl_is_as_sparse_as_the_others() -> None:
    run = finished("dis-pfl", density=0.3)
    models, late = joined(run)
    held = int(run.state["mask"][0].sum())
    assert 0.5 * held < int((models != 0).sum(1).max()) <= held < 0.4 * late.D


def test_a_newcomer_of_fedobp_keeps_only_what_is_personal() -> None:
    run = finished("fedobp", q=0.9)
    models, late = joined(run)
    kept = (models != run.state["theta"]).sum(1)
    assert all(0 < count <= 0.1 * late.params.parameters + 1 for count in kept.tolist())


@pytest.mark.parametrize("name", ["fedavg-ft", "fedbabu"])
def test_fine_tuning_has_a_learning_rate_of_its_own_for_them_as_for_all(name: str) -> None:
    plain, tiny = finished(name), finished(name, rate=1e-9)
    given, same = (run.method.newcomer_init(run.state, run.fed) for run in (tiny, plain))
    assert torch.equal(given, same)
    for tuned in (joined(tiny)[0], toys.everybody(tiny)):
        torch.testing.assert_close(tuned, given.expand_as(tuned), rtol=0, atol=1e-6)
    assert (joined(plain)[0] - given).abs().max() > 1e-3
