"""fedselect: limiting cases, growth of masks, plain transcriptions of both sets of rules, variants,
bytes.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import MethodError, build
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.rng import Streams
from tests.algorithms import plain, toys

# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_averages_may_be_weighted_as_the_recipe_says(weighting: str) -> None:
    run = toys.run(
        "fedselect",
        {"limit": 0.0, "weighting": "protocol"},
        dtype=torch.float64,
        weighting=weighting,
    )
    assert (
        plain.apart(
            toys.everybody(toys.run("fedavg", dtype=torch.float64, weighting=weighting)),
            toys.everybody(run),
        )
        < 1e-12
    )


# -- masks -----------------------------------------------------------------------------------------


def tensor_shares(run: Run) -> list[Tensor]:
    """Personal share of every tensor, client by client."""
    return [run.state["mask"][:, s.start : s.stop].double().mean(1) for s in run.fed.params]


def test_exact_growth_takes_the_share_of_what_is_left_up_to_the_limit() -> None:
    run = toys.run(
        "fedselect",
        {"limit": 0.5, "moved_only": False},
        sizes=toys.EQUAL,
        rounds=1,
        evaluation={"every": 0},
    )
    for count in (4, 7, 8):  # of 16 entries: 4, then a quarter of 12, then the limit
        own = torch.arange(16).expand(4, -1) < {4: 0, 7: 4, 8: 7}[count]
        change = torch.from_numpy(Streams(0).at("test", count).random((4, 16)))
        assert (
            run.method.paper_rule(own, change, change > 0).sum(1).tolist()
            == [count - int(own[0].sum())] * 4
        )  # type: ignore[attr-defined]


def test_the_codes_growth_overshoots_in_the_published_sequence() -> None:
    method = build("fedselect", {"mode": "code", "limit": 0.8})
    own, shares = torch.zeros(1, 100_000, dtype=torch.bool), []
    change = Streams(0).permutation(100_000, "test").double()[None]
    for _ in range(7):
        own = own | method.code_rule(own, change, change > 0)  # type: ignore[attr-defined]
        shares.append(own.double().mean().item())
    assert shares == pytest.approx([0.25, 0.4375, 0.578, 0.684, 0.763, 0.822, 0.822], abs=1e-3)


def test_the_code_takes_ties_and_the_paper_leaves_entries_that_did_not_move() -> None:
    change, own = (
        torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]),
        torch.zeros(1, 8, dtype=torch.bool),
    )
    assert build("fedselect", {"mode": "code"}).code_rule(own, change, change > 0).sum() == 8  # type: ignore[attr-defined]
    assert build("fedselect").paper_rule(own, change, change > 0).tolist() == [[False] * 7 + [True]]  # type: ignore[attr-defined]
    assert build("fedselect", {"moved_only": False}).paper_rule(own, change, change > 0).sum() == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("select", ["most", "least", "random"])
@pytest.mark.parametrize("moved_only", [True, False])
def test_entries_that_did_not_move_become_personal_only_where_that_is_allowed(
    select: str, moved_only: bool
) -> None:
    still = toys.run(
        "fedselect", {"select": select, "moved_only": moved_only}, sizes=toys.EQUAL, lr=1e-30
    )
    assert bool(still.state["mask"].any()) == (not moved_only)


# -- transcriptions --------------------------------------------------------------------------------


def alternated(
    fed: Federation, w: Tensor, client: int, round_: int, mask: Tensor, skip: bool
) -> Tensor:
    """LocalAlt of one client."""
    shared = ~mask & fed.params.learnable
    if skip and not (bool(mask.any()) and bool(shared.any())):
        return plain.train(fed, w, client, round_)[0]
    for epoch in range(fed.protocol.epochs):
        w, _ = plain.train(fed, w, client, round_, epochs=1, first=2 * epoch, trainable=mask)
        w, _ = plain.train(fed, w, client, round_, epochs=1, first=2 * epoch + 1, trainable=shared)
    return w


def exactly_grown(mask: Tensor, change: Tensor, rate: float, limit: float, least: bool) -> Tensor:
    """One tensor's mask by the paper's rule, entry by entry."""
    n, ones = len(mask), int(mask.sum())
    free = [k for k in range(n) if not mask[k] and change[k] > 0]
    count = max(0, min(round(rate * (n - ones)), math.floor(limit * n) - ones))
    out = mask.clone()
    for k in sorted(free, key=lambda k: float(change[k]) if least else -float(change[k]))[:count]:
        out[k] = True
    return out


def quantile_grown(mask: Tensor, change: Tensor, rate: float, limit: float) -> Tensor:
    """One tensor's mask by the code's rule."""
    if int(mask.sum()) / len(mask) > limit:
        return mask
    free = sorted(float(c) for c, m in zip(change, mask, strict=True) if not m)
    position = round((1 - rate) * len(free))
    return mask if position >= len(free) else mask | (change >= free[position])


def transcribed(
    run: Run, cohorts: list[list[int]], hp: dict[str, object]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Server values, masks and models after the given cohorts took part."""
    fed, code = run.fed, hp.get("mode") == "code"
    grow_at = int(hp.get("every", 3 if code else 1))  # type: ignore[call-overload]
    rate, limit = 0.25, float(hp.get("limit", 0.5))  # type: ignore[arg-type]
    theta, own = fed.new_model(), [fed.new_model() for _ in range(fed.N)]
    before, visits = [w.clone() for w in own], [0] * fed.N
    masks = [torch.zeros(fed.D, dtype=torch.bool) for _ in range(fed.N)]
    for round_, cohort in enumerate(cohorts, start=1):
        starts = {c: torch.where(masks[c] | fed.params.stats, own[c], theta) for c in cohort}
        ends = {c: alternated(fed, starts[c], c, round_, masks[c], skip=not code) for c in cohort}
        total, count = torch.zeros_like(theta), torch.zeros_like(theta)
        for c in cohort:
            used = ~masks[c] & fed.params.learnable
            total, count = total + used * ends[c], count + used
        theta = torch.where(count > 0, total / count.clamp(min=1), theta)
        for c in cohort:
            own[c] = torch.where(~masks[c] & fed.params.learnable, theta, ends[c])
            visits[c] += 1
            due = (
                visits[c] % grow_at == 0
                if not code
                else visits[c] > 1 and (visits[c] - 1) % grow_at == 0
            )
            if not due:
                continue
            change = (ends[c] - (before[c] if code else starts[c])).abs()
            for s in fed.params:
                place = slice(s.start, s.stop)
                if code and s.kind != "stat" and s.name.endswith("weight"):
                    masks[c][place] = quantile_grown(masks[c][place], change[place], rate, limit)
                if not code and s.kind != "stat":
                    masks[c][place] = exactly_grown(
                        masks[c][place], change[place], rate, limit, hp.get("select") == "least"
                    )
            before[c] = ends[c]
    return (
        theta,
        torch.stack(masks),
        [torch.where(m | fed.params.stats, w, theta) for m, w in zip(masks, own, strict=True)],
    )


@pytest.mark.parametrize(
    ("hp", "model", "participation"),
    [
        ({}, "tiny", 1.0),
        ({}, "tiny-bn", 0.5),
        ({"select": "least", "limit": 0.3}, "tiny-bn", 0.5),
        ({"mode": "code", "every": 1, "limit": 0.3}, "tiny", 1.0),
        ({"mode": "code", "every": 2}, "tiny-bn", 0.5),
    ],
    ids=str,
)
def test_it_follows_its_plain_transcription(
    hp: dict[str, object], model: str, participation: float
) -> None:
    sizes = (16, 9, 12, 7)
    run = toys.run(
        "fedselect",
        hp,
        model=model,
        sizes=sizes,
        rounds=1,
        dtype=torch.float64,
        participation=participation,
        stack=4,
        epochs=1,
    )
    cohorts = [run.fed.active.tolist()]
    for _ in range(3):
        run.step()
        cohorts.append(run.fed.active.tolist())
    theta, masks, models = transcribed(run, cohorts, hp)
    assert torch.equal(masks, run.state["mask"])
    assert (
        plain.apart(theta[run.fed.params.learnable], run.state["theta"][run.fed.params.learnable])
        < 1e-9
    )
    assert plain.apart(torch.stack(models), toys.everybody(run)) < 1e-9
    assert bool(masks.any())


def test_a_client_with_nothing_to_alternate_trains_plainly() -> None:
    run = toys.run("fedselect", rounds=1, model="tiny-bn", sizes=toys.EQUAL)
    fed = run.fed
    start, learnable = fed.new_model().expand(4, -1), fed.params.learnable
    half = learnable & (torch.arange(fed.D) % 2 == 0)
    personal = torch.stack([torch.zeros_like(half), learnable, half, half])
    end = run.method.local_alt(fed, start, personal, learnable & ~personal)
    assert torch.equal(end[:2], fed.train(start)[:2])
    assert not torch.equal(end[2:], fed.train(start)[2:])


# -- variants --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "names"),
    [
        ("A", {"conv1.weight"}),
        ("B", {"conv2.weight"}),
        ("C", {"fc1.weight", "fc1.bias"}),
        ("D", {"fc2.weight", "fc2.bias"}),
    ],
)
def test_one_layer_may_be_personal_from_the_start(layer: str, names: set[str]) -> None:
    run = toys.run("fedselect", {"select": "layer", "layer": layer}, model="tiny-bn", rounds=2)
    expected = run.fed.params.select(lambda s: s.name in names)
    assert torch.equal(run.state["mask"], expected.expand(6, -1))
    assert sum(toys.traffic(run, "up_codes")) == 0  # everybody knows which layer it is


def test_a_layer_may_be_named_and_a_wrong_name_is_refused() -> None:
    run = toys.run("fedselect", {"select": "layer", "layer": "fc1"}, rounds=1)
    assert torch.equal(
        run.state["mask"][0], run.fed.params.select(lambda s: s.name.startswith("fc1"))
    )
    with pytest.raises(MethodError, match="no layer is called 'fc9'"):
        toys.run("fedselect", {"select": "layer", "layer": "fc9"}, rounds=1)


def test_random_masks_have_the_same_size_as_selected_ones_and_differ_between_clients() -> None:
    one = toys.run("fedselect", {"select": "random", "moved_only": False}, sizes=toys.EQUAL)
    other = toys.run("fedselect", {"moved_only": False}, sizes=toys.EQUAL)
    assert torch.equal(torch.stack(tensor_shares(one)), torch.stack(tensor_shares(other)))
    assert len({tuple(row.tolist()) for row in one.state["mask"]}) == 4
    again = toys.run(
        "fedselect", {"select": "random", "moved_only": False}, sizes=toys.EQUAL, stack=4
    )
    assert torch.equal(one.state["mask"], again.state["mask"])


def test_batch_norm_left_in_evaluation_mode_trains_on_the_statistics_of_the_first_round() -> None:
    hp = {"every": 1, "limit": 0.3}
    left, code = (
        toys.run("fedselect", {"mode": mode, **hp}, model="tiny-bn", rounds=1)
        for mode in ("code-eval", "code")
    )
    assert torch.equal(left.state["w"], code.state["w"])
    stats, first = left.fed.params.stats, left.state["w"].clone()
    for run in (left, code):
        run.step()
    assert torch.equal(left.state["w"][:, stats], first[:, stats])
    assert not torch.equal(code.state["w"][:, stats], first[:, stats])
    assert not torch.equal(left.state["w"][:, ~stats], first[:, ~stats])


# -- bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["paper", "code"])
def test_shared_entries_and_their_bitmap_travel_both_ways(mode: str) -> None:
    run = toys.run(
        "fedselect", {"mode": mode, "every": 1}, model="tiny-bn", sizes=toys.EQUAL, rounds=1
    )
    fed = run.fed
    weights = sum(s.size for s in fed.params if s.name.endswith("weight"))
    selectable = fed.params.parameters if mode == "paper" else weights
    expected, first = [4 * 4 * fed.params.parameters], 4 * -(-selectable // 8)
    for _ in (2, 3):
        expected.append(4 * (4 * fed.params.parameters - int(run.state["mask"].sum())))
        run.step()
    for direction in ("up", "down"):
        assert toys.traffic(run, f"{direction}_values") == expected
        assert toys.traffic(run, f"{direction}_codes") == [first] * 3
    assert expected[2] < expected[0]
