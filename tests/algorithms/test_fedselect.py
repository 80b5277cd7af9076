"""fedselect: limiting cases, growth of masks, plain transcriptions of both sets of rules, variants;
for absent clients, too, whom the published code does not know.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import MethodError, build
from repfl.algorithms.core.run import Run
from tests.algorithms import plain, toys


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_without_masks_it_is_fedavg_weighted_as_the_recipe_says(weighting: str) -> None:
    how: dict[str, Any] = {"dtype": torch.float64, "weighting": weighting}
    run = toys.run("fedselect", {"limit": 0.0, "weighting": "protocol"}, **how)
    fedavg = toys.run("fedavg", **how)
    assert plain.apart(toys.everybody(fedavg), toys.everybody(run)) < 1e-12


def test_the_code_takes_all_equal_changes() -> None:
    change, own = torch.tensor([[0.0] * 7 + [1.0]]), torch.zeros(1, 8, dtype=torch.bool)
    method = build("fedselect", {"mode": "code"})
    assert method.rule(own, change, change > 0).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mode", "limit", "expected"),
    [
        ("paper", 0.05, [8, 8, 8, 8]),
        ("paper", 0.25, [8, 8, 8, 8]),
        ("paper", 0.3, [8, 14, 14, 14]),
        ("paper", 0.5, [8, 14, 18, 18]),
        ("paper", 1.0, [8, 14, 18, 22]),
        ("exact-cut", 0.05, [1, 1, 1, 1]),
        ("exact-cut", 0.3, [8, 9, 9, 9]),
        ("exact-cut", 0.5, [8, 14, 16, 16]),
    ],
)
def test_a_mask_grows_while_its_share_is_below_the_limit_and_may_exceed_it_once(
    mode: str, limit: float, expected: list[int]
) -> None:
    """With p = 0.25 of what is shared among 32 entries, which all move."""
    method = build("fedselect", {"mode": mode, "limit": limit})
    change, own, sizes = torch.arange(1.0, 33.0)[None], torch.zeros(1, 32, dtype=torch.bool), []
    for _ in expected:
        own = own | method.rule(own, change, change > 0)  # type: ignore[attr-defined]
        sizes.append(int(own.sum()))
    assert sizes == expected
    assert own[0, 32 - sizes[-1] :].all()  # those that moved most


@pytest.mark.parametrize("select", ["most", "least", "random"])
@pytest.mark.parametrize("moved_only", [True, False])
def test_entries_that_did_not_move_become_personal_only_where_that_is_allowed(
    select: str, moved_only: bool
) -> None:
    hp = {"select": select, "moved_only": moved_only}
    still = toys.run("fedselect", hp, sizes=toys.EQUAL, lr=1e-30)
    assert bool(still.state["mask"].any()) == (not moved_only)


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


def grown(
    mask: Tensor, change: Tensor, rate: float, limit: float, least: bool, cut: bool
) -> Tensor:
    """One tensor's mask by Algorithm 3, entry by entry; or with the last growth cut short."""
    n, ones = len(mask), int(mask.sum())
    if ones / n >= limit:
        return mask
    free = [k for k in range(n) if not mask[k] and change[k] > 0]
    count = round(rate * (n - ones))
    if cut:
        count = min(count, math.floor(limit * n) - ones)
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
    run: Run, cohorts: list[list[int]], hp: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Server values, masks and models after the given cohorts took part."""
    fed, code, cut = run.fed, hp.get("mode") == "code", hp.get("mode") == "exact-cut"
    grow_at = int(hp.get("every", 3 if code else 1))
    rate, limit = 0.25, float(hp.get("limit", 0.5))
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
            times = visits[c] - code  # the code compares with an earlier visit
            if times == 0 or times % grow_at:
                continue
            change = (ends[c] - (before[c] if code else starts[c])).abs()
            for s in fed.params.trained:
                held, moved = masks[c][s.place], change[s.place]
                if not code:
                    least = hp.get("select") == "least"
                    masks[c][s.place] = grown(held, moved, rate, limit, least, cut)
                elif s.name.endswith("weight"):
                    masks[c][s.place] = quantile_grown(held, moved, rate, limit)
            before[c] = ends[c]
    personal = [mask | fed.params.stats for mask in masks]
    models = [torch.where(p, w, theta) for p, w in zip(personal, own, strict=True)]
    return theta, torch.stack(masks), torch.stack(models)


@pytest.mark.parametrize(
    ("hp", "model", "participation"),
    [
        ({}, "tiny-bn", 0.5),
        ({"select": "least", "limit": 0.3}, "tiny-bn", 0.5),
        ({"mode": "exact-cut", "limit": 0.3}, "tiny-bn", 1.0),
        ({"mode": "code", "every": 2}, "tiny-bn", 0.5),
    ],
    ids=str,
)
def test_it_follows_its_plain_transcription(
    hp: dict[str, Any], model: str, participation: float
) -> None:
    how: dict[str, Any] = {"sizes": (16, 9, 12, 7), "dtype": torch.float64, "stack": 4}
    how |= {"model": model, "participation": participation, "epochs": 1, "rounds": 1}
    run = toys.run("fedselect", hp, **how)
    cohorts, learnable = [run.fed.active.tolist()], run.fed.params.learnable
    for _ in range(3):
        run.step()
        cohorts.append(run.fed.active.tolist())
    theta, masks, models = transcribed(run, cohorts, hp)
    assert torch.equal(masks, run.state["mask"])
    assert plain.apart(theta[learnable], run.state["theta"][learnable]) < 1e-9
    assert plain.apart(models, toys.everybody(run)) < 1e-9
    assert bool(masks.any())


@pytest.mark.parametrize(
    ("layer", "names"),
    [
        ("A", {"conv1.weight"}),
        ("B", {"conv2.weight"}),
        ("C", {"fc1.weight", "fc1.bias"}),
        ("D", {"fc2.weight", "fc2.bias"}),
        ("bn1", {"bn1.weight", "bn1.bias"}),
    ],
)
def test_one_layer_may_be_personal_from_the_start(layer: str, names: set[str]) -> None:
    run = toys.run("fedselect", {"select": "layer", "layer": layer}, model="tiny-bn", rounds=2)
    expected = run.fed.params.select(lambda s: s.name in names)
    assert torch.equal(run.state["mask"], expected.expand(6, -1))
    assert sum(toys.traffic(run, "up_codes")) == 0  # everybody knows which layer it is


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(MethodError, match="no layer is called 'fc9'"):
        toys.run("fedselect", {"select": "layer", "layer": "fc9"}, rounds=1)


def test_random_masks_have_the_same_size_as_selected_ones_and_differ_between_clients() -> None:
    hp = {"select": "random", "moved_only": False}
    one, again = (toys.run("fedselect", hp, sizes=toys.EQUAL, stack=stack) for stack in (1, 4))
    other = toys.run("fedselect", {"moved_only": False}, sizes=toys.EQUAL)
    for s in one.fed.params:
        chosen, random = (run.state["mask"][:, s.place].sum(1) for run in (other, one))
        assert torch.equal(chosen, random)
    assert len({tuple(row.tolist()) for row in one.state["mask"]}) == 4
    assert torch.equal(one.state["mask"], again.state["mask"])
