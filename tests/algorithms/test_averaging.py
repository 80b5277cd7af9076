"""What methods average, and what stays with clients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.algorithms import peers, toys


def test_clients_may_start_from_values_of_their_own() -> None:
    run = toys.run("local", start="own", epochs=0)
    assert not torch.equal(run.state["w"][0], run.state["w"][1])
    assert torch.equal(run.state["w"][1], run.fed.new_model(1))


def test_a_cohort_without_a_single_sample_changes_nothing_and_breaks_nothing() -> None:
    run = toys.run("fedavg", sizes=(0, 0), rounds=1)
    assert torch.equal(run.state["theta"], run.fed.new_model())


def test_fedavg_keeps_or_averages_statistics_as_the_protocol_says() -> None:
    local, shared = (toys.run("fedavg", model="tiny-bn", buffers=b) for b in ("local", "global"))
    stats = local.fed.params.stats
    assert not torch.equal(toys.everybody(local)[0, stats], toys.everybody(local)[3, stats])
    assert torch.equal(toys.everybody(shared)[0], toys.everybody(shared)[3])


@pytest.mark.parametrize("rule", ["initial", "global"])
def test_fedper_newcomers_hold_the_initial_or_the_average_head(rule: str) -> None:
    run = toys.run("fedper", {"newcomer": rule}, model="tiny-bn", participation=0.5, rounds=1)
    absent, fed = ~run.state["seen"], run.fed
    expected = fed.new_model() if rule == "initial" else fed.mean(fed.trained)
    assert absent.any()
    for model in toys.everybody(run)[absent]:
        assert torch.equal(model[fed.params.head], expected[fed.params.head])
        # statistics stay with clients
        assert torch.equal(model[fed.params.stats], fed.new_model()[fed.params.stats])


@pytest.mark.parametrize(("method", "size"), [("pfedme", "beta"), ("scaffold", "server_lr")])
def test_the_servers_step_does_not_stretch_running_statistics(method: str, size: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "buffers": "global", "rounds": 1}
    plain, long = (toys.run(method, {size: step}, **how) for step in (1.0, 2.0))
    same = plain.state["theta"] == long.state["theta"]
    stats = plain.fed.params.stats
    assert same[stats].all()
    assert not same[~stats].all()


def test_feddyn_averages_running_statistics_without_a_correction() -> None:
    run = toys.run("feddyn", {"alpha": 0.3}, model="tiny-bn", buffers="global")
    assert not run.state["h"][run.fed.params.stats].any()
    assert run.state["h"][run.fed.params.learnable].any()


@pytest.mark.parametrize("buffers", ["local", "global"])
def test_dfedavgm_sends_statistics_where_the_protocol_averages_them(buffers: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "buffers": buffers, "sizes": peers.SIZES}
    run = toys.run("dfedavgm", {"order": "train-gossip", "graph": "complete"}, **how)
    spread = (run.state["w"] - run.state["w"].mean(0)).abs().amax(0)
    assert spread[run.fed.params.learnable].max() < 1e-6
    assert bool((spread[run.fed.params.stats] > 1e-4).any()) == (buffers == "local")


@pytest.mark.parametrize("buffers", ["local", "global"])
def test_dis_pfl_averages_statistics_only_where_the_protocol_does(buffers: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": peers.SIZES, "buffers": buffers}
    run = toys.run("dis-pfl", {"graph": "complete", "density": 0.5}, **how)
    run.fed.begin(4, all_clients=True)
    stats = run.fed.params.stats
    w, sent, mask = (run.state[name] for name in ("w", "sent", "mask"))
    before, after = w[:, stats], run.method.gossip(run.fed, w, sent, mask)[:, stats]
    if buffers == "local":
        assert torch.equal(before, after)
    else:
        assert torch.allclose(after, before.mean(0).expand_as(after))
