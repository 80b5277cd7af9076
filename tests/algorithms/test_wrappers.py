"""Wrappers around methods: what they change about messages, and that nothing else changes."""

from __future__ import annotations

import re
from math import ceil
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Message, Vectors
from repfl.algorithms.core.method import MethodError, State, build, methods, with_hp
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.sending import Way
from repfl.algorithms.core.wrapper import Uploads
from repfl.algorithms.fedobp import FedOBP, ServersFedOBP
from repfl.algorithms.wrappers.compress import quantised
from repfl.bench.check import contract
from repfl.bench.check.situation import Situation
from tests.algorithms import toys

SIZES = (25, 7, 12, 40)


def stepped(method: str, hp: dict[str, Any] | None = None) -> tuple[Run, list[Vectors]]:
    """Run one round; return the run and the vectors that went up, as they were on the wire."""
    run = Situation(method, "tiny", 1.0, tuple((hp or {}).items())).fresh(sizes=SIZES)
    run.start()
    uploads: list[Vectors] = []

    def keep(way: Way, message: Message, rows: list[int]) -> Message:
        if way == "up" and isinstance(message, Vectors):
            uploads.append(message)
        return message

    run.fed.network.taps.append(keep)
    run.step()
    return run, uploads


def changes(run: Run, uploads: list[Vectors]) -> Tensor:
    """How far each upload is from the model that all clients started with  [K, D]."""
    return torch.where(uploads[0].mask, uploads[0].values - run.fed.new_model(), 0.0)


def test_clipped_changes_point_where_the_true_ones_do() -> None:
    run, uploads = stepped("fedper+dp", {"dp_clip": 0.01, "dp_noise": 0.0})
    true, clipped = changes(*stepped("fedper")), changes(run, uploads)
    expected = true * (0.01 / true.norm(dim=1, keepdim=True)).clamp(max=1.0)
    torch.testing.assert_close(clipped, expected, rtol=0, atol=1e-12)
    assert (true.norm(dim=1) > 0.01).all()
    theta = run.fed.new_model() + run.fed.weights @ clipped
    torch.testing.assert_close(run.state["theta"], theta, rtol=0, atol=1e-12)


def test_noise_has_its_size_reaches_what_is_sent_and_differs_by_client() -> None:
    how = {"dp_clip": 0.5}
    noised = changes(*stepped("fedper+dp", {**how, "dp_noise": 2.0}))
    quiet = changes(*stepped("fedper+dp", {**how, "dp_noise": 0.0}))
    run, uploads = stepped("fedper+dp", {**how, "dp_noise": 2.0})
    noise = (noised - quiet)[:, uploads[0].mask]
    assert noise.std() == pytest.approx(1.0, abs=0.05)
    assert abs(torch.corrcoef(noise)[0, 1]) < 0.1
    assert torch.equal(changes(run, uploads), noised)


def test_what_is_shared_alone_may_be_protected() -> None:
    hp = {"dp_clip": 1e-6, "dp_noise": 0.0, "dp_entries": "shared"}
    run, uploads = stepped("ditto+dp", hp)
    assert changes(run, uploads).norm(dim=1).max() <= 1e-6 * (1 + 1e-9)
    with pytest.raises(MethodError, match="derive from FedAvg"):
        stepped("fedobp+dp", hp)


@pytest.mark.parametrize("method", ["fedcac", "lotteryfl"])
def test_a_method_that_sends_what_noise_does_not_protect_is_refused(method: str) -> None:
    with pytest.raises(MethodError, match="which noise does not protect"):
        stepped(f"{method}+dp")


def test_every_upload_belongs_to_the_download_of_its_place() -> None:
    anchors = []

    def keep(message: Message, anchor: Tensor, count: int, rows: list[int]) -> Message:
        anchors.append((count, anchor[:, 0].tolist()))
        return message

    uploads, mask = Uploads(keep), torch.ones(2, dtype=torch.bool)
    for way, value in (("down", 3.0), ("down", 5.0), ("up", 0.0), ("up", 0.0), ("up", 0.0)):
        uploads.tap(way, Vectors(torch.full((2, 2), value), mask, mask), [0, 1])  # type: ignore[arg-type]
    assert anchors == [(1, [3.0, 3.0]), (2, [5.0, 5.0]), (3, [0.0, 0.0])]


def test_the_largest_changes_arrive_as_they_are_and_the_others_not_at_all() -> None:
    run, uploads = stepped("fedper+compress", {"compress_share": 0.3})
    true, sent = changes(*stepped("fedper")), changes(run, uploads)
    share = 0.3 * int(uploads[0].mask.sum())
    number = ceil(share)
    assert number != share  # so that it matters how it is rounded
    for full, part in zip(true, sent, strict=True):
        assert int((part != 0).sum()) <= number
        kept = full.abs() >= part[part != 0].abs().min() * (1 - 1e-9)
        torch.testing.assert_close(part, full * kept, rtol=0, atol=1e-12)
    traffic = run.fed.network.ledger.round
    assert traffic["up_values"].tolist() == [4 * number] * 4
    positions = min((int(run.fed.communicated.sum()) + 7) // 8, 4 * number)
    assert traffic["up_codes"].tolist() == [positions] * 4


def test_few_bits_make_short_messages_whose_mean_is_right() -> None:
    run, uploads = stepped("fedavg+compress", {"compress_share": 1.0, "compress_bits": 8})
    words = (run.fed.D * 8 + 31) // 32 + 1
    assert run.fed.network.ledger.round["up_values"].tolist() == [4 * words] * 4
    true, sent = changes(*stepped("fedavg")), changes(run, uploads)
    unit = true.abs().amax(1, keepdim=True) / 127
    assert ((sent - true).abs() <= unit * (1 + 1e-9)).all()
    x = torch.tensor([[0.3, -0.7, 1.0]], dtype=torch.float64).expand(1000, 3)
    draws = torch.arange(1000, dtype=torch.float64)[:, None].expand(1000, 3) / 1000
    rounded = quantised(x, 2, draws)
    assert {round(value, 12) for value in rounded.flatten().tolist()} <= {-1.0, 0.0, 1.0}
    torch.testing.assert_close(rounded.mean(0), x[0], rtol=0, atol=0.002)


def test_who_drops_out_neither_trains_nor_costs_anything() -> None:
    run, uploads = stepped("fedavg+dropout", {"dropout_share": 0.999})
    (stays,) = run.fed.trained_rows.blocks[0][0]
    assert len(uploads[0].values) == 1
    spent = run.fed.network.ledger.round["up_values"] + run.fed.network.ledger.round["down_values"]
    assert spent.nonzero().flatten().tolist() == [stays]
    torch.testing.assert_close(run.state["theta"], uploads[0].values[0])
    assert {client for _, point, client, *_ in run.counts if point == "pre_agg"} == {stays}
    assert run.fed.active_ids == run.fed.sampled == [0, 1, 2, 3]


def test_the_first_wrapper_is_the_nearest_to_the_method() -> None:
    """Noise is added first: compressed afterwards, it leaves most entries alone."""
    hp = {"dp_noise": 1.0, "compress_share": 0.1}
    sent = changes(*stepped("fedavg+dp+compress", hp))
    assert ((sent != 0).double().mean(1) <= 0.11).all()
    sent = changes(*stepped("fedavg+compress+dp", hp))
    assert (sent != 0).all()


def test_wrapped_methods_are_found_by_name_and_not_listed() -> None:
    assert "fedper+dp" in methods()
    assert "fedper+dp" not in list(methods())
    assert "fedper+nothing" not in methods()
    assert methods()["fedper+dp"] is methods()["fedper+dp"]
    hp = build("fedper+dp", {"newcomer": "global", "dp_clip": 2.0}).hp
    assert (hp.newcomer, hp.dp_clip, hp.dp_noise) == ("global", 2.0, 0.1)
    with pytest.raises(MethodError, match="dis-pfl has no server"):
        methods()["dis-pfl+dp"]


@pytest.mark.parametrize("name", ["local+dp", "local+compress", "local+dropout+dp"])
def test_what_changes_messages_is_refused_around_a_method_without_any(name: str) -> None:
    inner = name.rpartition("+")[0]
    with pytest.raises(MethodError, match=rf"{re.escape(inner)} sends nothing") as refused:
        methods()[name]
    assert str(refused.value).endswith(f"did you mean {inner}?")


def test_clients_that_train_alone_may_miss_rounds() -> None:
    run, uploads = stepped("local+dropout", {"dropout_share": 0.999})
    assert not uploads
    moved = (run.state["w"] != run.fed.new_model()).any(1)
    assert moved.sum() == 1


def test_a_wrapped_method_keeps_the_contract() -> None:
    case = Situation("fedper+dp+compress", "tiny-bn", 0.5)
    for promise in (
        "billed",
        "unsent",
        "unreceived",
        "resumable",
        "ordered",
        "statistics",
        "device",
    ):
        getattr(contract, promise)(case)


def test_a_variant_of_a_method_goes_before_the_class_that_its_switches_choose() -> None:
    class Variant(FedOBP):
        def client_params(self, state: State, fed: Federation) -> torch.Tensor:
            return torch.zeros_like(super().client_params(state, fed))

    chosen = with_hp(Variant, Variant.HP())
    assert isinstance(chosen, Variant)
    assert isinstance(chosen, ServersFedOBP)
    run = toys.run(chosen, rounds=1)
    assert not toys.everybody(run).any()
    assert type(with_hp(Variant, Variant.HP(decoupling="client"))) is Variant
