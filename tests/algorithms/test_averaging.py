"""local, fedavg, fedavg-ft, fedper, fedbn, pfedsd: limiting cases, plain transcriptions, bytes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.partial_averaging import PartialAveraging
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.client_data import ClientData
from tests.algorithms import plain, toys

TWO = {"dtype": torch.float64, "rounds": 2}


models_of = toys.everybody


def with_other_data_of(client: int) -> ClientData:
    """The toy clients, one of them with its images inverted."""
    held = toys.data()
    images = held.images.clone()
    images[held.train[client]] = 255 - images[held.train[client]]
    return ClientData(
        images, held.labels, held.train, held.test, held.val, held.scale, held.shift, held.classes
    )


def traffic(run: Run, line: str) -> list[float]:
    return [value for _, name, value in run.rows if name == f"traffic/{line}"]


# -- what is shared --------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["all", "nothing", "body", "every other entry"])
def test_who_keeps_some_entries_keeps_those_and_no_others(which: str) -> None:
    fed = toys.run("local", **TWO).fed
    entry, body = torch.arange(fed.D), ~fed.params.head
    masks = {"all": entry >= 0, "nothing": entry < 0, "body": body, "every other entry": entry % 2}
    shared = masks[which].bool()

    class Some(PartialAveraging):
        def shared_mask(self, fed: Federation) -> Tensor:
            return shared

    method = Some()
    state = method.init(fed)
    ends = torch.from_numpy(fed.rng("ends").random((fed.K, fed.D))).to(fed.dtype)
    state |= method.keep(state, fed, ends)
    assert state["own"].shape == (fed.N, int((~shared).sum()))
    given = method.client_params(state, fed)
    assert torch.equal(given, torch.where(shared, state["theta"], ends))


# -- local -----------------------------------------------------------------------------------------


def test_local_model_of_a_client_ignores_everybody_elses_data() -> None:
    one, other = toys.run("local"), toys.run("local", clients_data=with_other_data_of(3))
    same = [torch.equal(a, b) for a, b in zip(models_of(one), models_of(other), strict=True)]
    assert same == [True, True, True, False, True, True]


def test_local_with_one_client_equals_fedavg() -> None:
    one, other = (toys.run(name, model="tiny-bn", sizes=(20,)) for name in ("local", "fedavg"))
    assert torch.equal(models_of(one), models_of(other))


def test_local_follows_its_plain_transcription_and_sends_nothing() -> None:
    run = toys.run("local", model="tiny-bn", **TWO, sizes=(25, 16))
    for client in (0, 1):
        w = run.fed.new_model()
        for round_ in (1, 2):
            w, _ = plain.train(run.fed, w, client, round_)
        assert plain.apart(w, run.state["w"][client]) < 1e-9
    assert sum(traffic(run, "up_values") + traffic(run, "down_values")) == 0


def test_clients_may_start_from_values_of_their_own() -> None:
    run = toys.run("local", start="own", epochs=0)
    assert not torch.equal(run.state["w"][0], run.state["w"][1])
    assert torch.equal(run.state["w"][1], run.fed.new_model(1))


# -- fedavg ----------------------------------------------------------------------------------------


def test_fedavg_follows_its_plain_transcription() -> None:
    run = toys.run("fedavg", **TWO)
    theta = run.fed.new_model()
    clients = list(range(run.fed.N))
    for round_ in (1, 2):
        ends = [plain.train(run.fed, theta, client, round_)[0] for client in clients]
        theta = sum(p * end for p, end in zip(plain.weights(run.fed, clients), ends, strict=True))
    assert plain.apart(theta, run.state["theta"]) < 1e-9


def test_fedavg_of_identical_clients_is_any_of_them() -> None:
    held = toys.data((16, 16))
    twin = ClientData(
        held.images,
        held.labels,
        [held.train[0]] * 2,
        [held.test[0]] * 2,
        held.val[:2],
        held.scale,
        held.shift,
        held.classes,
    )
    run = toys.run(
        "fedavg", clients_data=twin, batch=16, epochs=1, rounds=1, dtype=torch.float64
    )  # one full batch: order does not matter
    assert plain.apart(run.fed.trained[0], run.state["theta"]) < 1e-12


def test_fedavg_does_not_depend_on_the_order_of_clients() -> None:
    held = toys.data()
    shuffled = [3, 0, 5, 1, 2, 4]
    other = ClientData(
        held.images,
        held.labels,
        [held.train[i] for i in shuffled],
        [held.test[i] for i in shuffled],
        held.val,
        held.scale,
        held.shift,
        held.classes,
    )
    runs = [toys.run("fedavg", clients_data=d, batch=64, epochs=1, **TWO) for d in (held, other)]
    assert plain.apart(runs[0].state["theta"], runs[1].state["theta"]) < 1e-12


def test_fedavg_weights_sum_to_one() -> None:
    for weighting in ("samples", "uniform"):
        assert abs(toys.run("fedavg", weighting=weighting, rounds=1).fed.weights.sum() - 1) < 1e-6


def test_a_cohort_without_a_single_sample_changes_nothing_and_breaks_nothing() -> None:
    run = toys.run("fedavg", sizes=(0, 0), rounds=1)
    assert torch.equal(run.state["theta"], run.fed.new_model())


def test_fedavg_keeps_or_averages_statistics_as_the_protocol_says() -> None:
    local, shared = (toys.run("fedavg", model="tiny-bn", buffers=b) for b in ("local", "global"))
    stats = local.fed.params.stats
    assert not torch.equal(models_of(local)[0, stats], models_of(local)[3, stats])
    assert torch.equal(models_of(shared)[0], models_of(shared)[3])


def test_fedavg_bills_learnable_entries_and_statistics_only_when_averaged() -> None:
    layout = toys.run("fedavg", model="tiny-bn", rounds=1).fed.params
    for buffers, floats in (("local", layout.parameters), ("global", layout.size)):
        run = toys.run("fedavg", model="tiny-bn", buffers=buffers, rounds=1, participation=0.5)
        assert traffic(run, "up_values") == traffic(run, "down_values") == [3 * 4 * floats]
        assert traffic(run, "up_codes") == traffic(run, "down_codes") == [0]


# -- fedavg-ft -------------------------------------------------------------------------------------


def test_fine_tuning_for_no_epochs_is_fedavg() -> None:
    assert torch.equal(
        models_of(toys.run("fedavg-ft", {"epochs": 0})), models_of(toys.run("fedavg"))
    )


def test_fine_tuning_starts_from_the_global_model_and_feeds_nothing_back() -> None:
    run, base = toys.run("fedavg-ft", {"epochs": 2}, **TWO), toys.run("fedavg", **TWO)
    assert torch.equal(run.state["theta"], base.state["theta"])
    expected, _ = plain.train(run.fed, base.state["theta"], 3, 2, epochs=2, stream="finetune")
    assert plain.apart(expected, models_of(run)[3]) < 1e-9


def test_fine_tuning_the_head_leaves_the_body() -> None:
    run = toys.run("fedavg-ft", {"part": "head"})
    body = ~run.fed.params.head
    assert torch.equal(models_of(run)[0, body], run.state["theta"][body])
    assert not torch.equal(models_of(run)[0], run.state["theta"])


# -- fedper, fedbn ---------------------------------------------------------------------------------


def test_fedper_without_a_head_is_fedavg_bit_for_bit() -> None:
    base = toys.run("fedavg", model="tiny-bn")
    run = toys.run("fedper", model=toys.headless("tiny-bn"))
    assert torch.equal(run.state["theta"], base.state["theta"])
    assert torch.equal(models_of(run), models_of(base))


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
        assert plain.apart(body, models_of(run)[client]) < 1e-9


def test_fedper_newcomers_hold_the_initial_or_the_average_head() -> None:
    for rule in ("initial", "global"):
        run = toys.run("fedper", {"newcomer": rule}, participation=0.5, rounds=1)
        absent = next(c for c in range(run.fed.N) if c not in run.fed.active.tolist())
        head = run.fed.params.head
        expected = run.fed.new_model() if rule == "initial" else run.fed.mean(run.fed.trained)
        assert torch.equal(models_of(run)[absent, head], expected[head])


def test_fedper_newcomers_with_the_average_head_are_billed_for_it_once_and_everybody_sends_it() -> (
    None
):
    run = toys.run("fedper", {"newcomer": "global"}, participation=0.5)
    head, sent = 32 * 4 + 4, run.fed.params.parameters
    seen: set[int] = set()
    for round_, (down, up) in enumerate(
        zip(traffic(run, "down_values"), traffic(run, "up_values"), strict=True), 1
    ):
        run.fed.begin(round_)
        cohort = set(run.fed.active.tolist())
        assert down == 4 * (3 * (sent - head) + head * len(cohort - seen))
        assert up == 4 * 3 * sent
        seen |= cohort
    assert len(seen) < 9  # somebody came twice


def test_fedper_newcomers_keep_their_initial_statistics_where_these_stay_with_clients() -> None:
    run = toys.run(
        "fedper",
        {"newcomer": "global"},
        model="tiny-bn",
        participation=0.5,
        rounds=1,
        buffers="local",
    )
    absent = next(c for c in range(run.fed.N) if c not in run.fed.active.tolist())
    stats = run.fed.params.stats
    assert torch.equal(models_of(run)[absent, stats], run.fed.new_model()[stats])


def test_fedper_sends_the_body_only() -> None:
    run = toys.run("fedper", rounds=1)
    head = 32 * 4 + 4
    assert (
        traffic(run, "up_values")
        == traffic(run, "down_values")
        == [6 * 4 * (run.fed.params.parameters - head)]
    )


def test_fedbn_without_bn_is_fedavg_bit_for_bit() -> None:
    one, other = toys.run("fedbn"), toys.run("fedavg")
    assert torch.equal(one.state["theta"], other.state["theta"])


def test_fedbn_affine_of_a_client_depends_on_its_own_history_only() -> None:
    one, other = (
        toys.run("fedbn", model="tiny-bn", clients_data=d, rounds=1)
        for d in (toys.data(), with_other_data_of(3))
    )
    norm = one.fed.params.norm | one.fed.params.stats
    assert torch.equal(models_of(one)[0, norm], models_of(other)[0, norm])
    assert not torch.equal(models_of(one)[0], models_of(other)[0])


def test_fedbn_trains_like_fedavg_in_its_first_round() -> None:
    one, other = (toys.run(name, model="tiny-bn", rounds=1) for name in ("fedbn", "fedavg"))
    assert torch.equal(one.fed.trained, other.fed.trained)


def test_fedbn_sends_everything_but_normalisation() -> None:
    run = toys.run("fedbn", model="tiny-bn", rounds=1)
    assert traffic(run, "up_values") == [6 * 4 * (run.fed.params.parameters - 48)]


# -- pfedsd ----------------------------------------------------------------------------------------


def test_pfedsd_without_its_term_is_fedavg_bit_for_bit() -> None:
    assert torch.equal(
        toys.run("pfedsd", {"lam": 0.0}, model="tiny-bn").state["theta"],
        toys.run("fedavg", model="tiny-bn").state["theta"],
    )


def test_pfedsd_first_round_is_fedavg() -> None:
    assert torch.equal(
        toys.run("pfedsd", rounds=1).state["theta"], toys.run("fedavg", rounds=1).state["theta"]
    )


def test_pfedsd_follows_its_plain_transcription() -> None:
    run = toys.run("pfedsd", {"lam": 0.7, "temperature": 2.0}, **TWO)
    fed, clients = run.fed, list(range(run.fed.N))
    theta, teachers = fed.new_model(), None
    for round_ in (1, 2):
        ends = []
        for client in clients:

            def loss(
                p: dict[str, Tensor],
                x: Tensor,
                y: Tensor,
                teacher: Tensor | None = teachers and teachers[client],
            ) -> Tensor:
                out = plain.logits(p, x)
                if teacher is None:
                    return F.cross_entropy(out, y)
                goal = plain.logits(plain.named(fed, teacher), x)
                kl = F.kl_div(
                    F.log_softmax(out / 2, 1), F.softmax(goal / 2, 1), reduction="batchmean"
                )
                return F.cross_entropy(out, y) + 0.7 * 4 * kl

            ends.append(plain.train(fed, theta, client, round_, loss=loss)[0])
        teachers = ends
        theta = sum(p * end for p, end in zip(plain.weights(fed, clients), ends, strict=True))
    assert plain.apart(theta, run.state["theta"]) < 1e-9


def test_pfedsd_student_equal_to_its_teacher_feels_no_pull() -> None:
    run = toys.run("pfedsd", {"lam": 1.0}, rounds=1, dtype=torch.float64)
    x, y = plain.batches(run.fed, 0, 2, 1)[0]

    def distance(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        goal = plain.logits({n: t.detach() for n, t in p.items()}, x)
        return F.kl_div(
            F.log_softmax(plain.logits(p, x), 1), F.softmax(goal, 1), reduction="batchmean"
        )

    assert plain.gradient(run.fed, run.state["theta"], x, y, distance).abs().max() < 1e-12
