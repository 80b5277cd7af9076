"""local, fedavg, fedavg-ft, fedper, pfedsd: limiting cases, plain transcriptions, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.algorithms import plain, toys

TWO = {"dtype": torch.float64, "rounds": 2}


def test_local_follows_its_plain_transcription_and_sends_nothing() -> None:
    run = toys.run("local", model="tiny-bn", **TWO, sizes=(25, 16))
    for client in (0, 1):
        w = run.fed.new_model()
        for round_ in (1, 2):
            w, _ = plain.train(run.fed, w, client, round_)
        assert plain.apart(w, run.state["w"][client]) < 1e-9
    assert sum(toys.traffic(run, "up_values") + toys.traffic(run, "down_values")) == 0


def test_clients_may_start_from_values_of_their_own() -> None:
    run = toys.run("local", start="own", epochs=0)
    assert not torch.equal(run.state["w"][0], run.state["w"][1])
    assert torch.equal(run.state["w"][1], run.fed.new_model(1))


def test_fedavg_follows_its_plain_transcription() -> None:
    run = toys.run("fedavg", **TWO)
    theta = run.fed.new_model()
    clients = list(range(run.fed.N))
    for round_ in (1, 2):
        ends = [plain.train(run.fed, theta, client, round_)[0] for client in clients]
        theta = sum(p * end for p, end in zip(plain.weights(run.fed, clients), ends, strict=True))
    assert plain.apart(theta, run.state["theta"]) < 1e-9


def test_a_cohort_without_a_single_sample_changes_nothing_and_breaks_nothing() -> None:
    run = toys.run("fedavg", sizes=(0, 0), rounds=1)
    assert torch.equal(run.state["theta"], run.fed.new_model())


def test_fedavg_keeps_or_averages_statistics_as_the_protocol_says() -> None:
    local, shared = (toys.run("fedavg", model="tiny-bn", buffers=b) for b in ("local", "global"))
    stats = local.fed.params.stats
    assert not torch.equal(toys.everybody(local)[0, stats], toys.everybody(local)[3, stats])
    assert torch.equal(toys.everybody(shared)[0], toys.everybody(shared)[3])


def test_fine_tuning_starts_from_the_global_model_and_feeds_nothing_back() -> None:
    run, base = toys.run("fedavg-ft", {"epochs": 2}, **TWO), toys.run("fedavg", **TWO)
    assert torch.equal(run.state["theta"], base.state["theta"])
    expected, _ = plain.train(run.fed, base.state["theta"], 3, 2, epochs=2, stream="finetune")
    assert plain.apart(expected, toys.everybody(run)[3]) < 1e-9


def test_fedper_follows_its_plain_transcription() -> None:
    run = toys.run("fedper", **TWO)
    fed, clients = run.fed, list(range(run.fed.N))
    head = fed.params.head
    body, heads = fed.new_model(), [fed.new_model()[head]] * fed.N
    for round_ in (1, 2):
        ends = []
        for client in clients:
            w = body.clone()
            w[head] = heads[client]
            ends.append(plain.train(fed, w, client, round_)[0])
        heads = [end[head] for end in ends]
        body = sum(p * end for p, end in zip(plain.weights(fed, clients), ends, strict=True))
    for client in clients:
        body[head] = heads[client]
        assert plain.apart(body, toys.everybody(run)[client]) < 1e-9


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


def test_newcomers_are_billed_for_the_average_head_once_and_everybody_sends_it() -> None:
    run = toys.run("fedper", {"newcomer": "global"}, participation=0.5)
    head, sent = 32 * 4 + 4, run.fed.params.parameters
    seen: set[int] = set()
    for round_, down in enumerate(toys.traffic(run, "down_values"), 1):
        run.fed.begin(round_)
        cohort = set(run.fed.active.tolist())
        assert down == 4 * (3 * (sent - head) + head * len(cohort - seen))
        seen |= cohort
    assert len(seen) < 9  # somebody came twice
    assert toys.traffic(run, "up_values") == [4 * 3 * sent] * 3


def test_pfedsd_follows_its_plain_transcription() -> None:
    run = toys.run("pfedsd", {"lam": 0.7, "temperature": 2.0}, **TWO)
    fed, clients = run.fed, list(range(run.fed.N))
    theta, teachers = fed.new_model(), None
    for round_ in (1, 2):
        ends = []
        for client in clients:
            teacher = teachers and teachers[client]

            def loss(p: dict[str, Tensor], x: Tensor, y: Tensor, teacher: Any = teacher) -> Tensor:
                out = plain.logits(p, x)
                if teacher is None:
                    return F.cross_entropy(out, y)
                goal = F.softmax(plain.logits(plain.named(fed, teacher), x) / 2, 1)
                kl = F.kl_div(F.log_softmax(out / 2, 1), goal, reduction="batchmean")
                return F.cross_entropy(out, y) + 0.7 * 4 * kl

            ends.append(plain.train(fed, theta, client, round_, loss=loss)[0])
        teachers = ends
        theta = sum(p * end for p, end in zip(plain.weights(fed, clients), ends, strict=True))
    assert plain.apart(theta, run.state["theta"]) < 1e-9
