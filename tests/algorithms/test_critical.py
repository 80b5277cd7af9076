"""fedcac and fedpurin: limiting cases, plain transcriptions, bytes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import build
from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math import critical
from tests.algorithms import plain, toys

ALL = {"tau": 1.0, "cutoff": "off"}


@pytest.mark.parametrize(
    ("cutoff", "dead_tensor", "sparse_tensor"), [("code", 32, 3), ("empty", 0, 3), ("off", 32, 32)]
)
def test_cutoff_rules_on_tensors_with_dead_entries(
    cutoff: Any, dead_tensor: int, sparse_tensor: int
) -> None:
    parts = models.build("tiny", channels=1, size=8, classes=4).params
    scores = torch.ones(1, parts.size)
    dead, sparse = parts["fc1.bias"], parts["fc2.weight"]
    scores[:, dead.place] = 0
    scores[:, sparse.place] = 0
    scores[:, sparse.start : sparse.start + 3] = 1
    mask = critical.critical(scores, 0.25, parts.trained, cutoff, 1e-10)
    assert int(mask[0, dead.place].sum()) == dead_tensor
    assert int(mask[0, sparse.place].sum()) == (sparse_tensor if cutoff != "off" else sparse.size)


def test_overlap_is_measured_against_the_clients_own_mask() -> None:
    masks = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    assert critical.overlaps(masks).tolist() == [[1.0, 0.75], [0.5, 1.0]]


def test_the_bar_passes_nobody_beyond_the_largest_overlap_and_nobody_alone() -> None:
    overlap = torch.tensor([[1, 0.2, 0.6], [0.4, 1, 0.8], [0.6, 0.2, 1]], dtype=torch.float64)
    assert critical.collaborators(overlap, 1.1).sum() == 0
    assert critical.collaborators(torch.ones(1, 1, dtype=torch.float64), 0.5).sum() == 0


def test_the_largest_overlap_reaches_the_last_bar_however_sums_round() -> None:
    counts = torch.from_numpy(Streams(0).at("counts").integers(0, 73, (200, 6, 6)))
    counts.diagonal(dim1=1, dim2=2).zero_()
    for overlap in counts.double() / 72:
        pairs = critical.collaborators(overlap, 1.0)
        assert torch.equal(pairs, overlap == overlap.max())


@pytest.mark.parametrize("method", ["fedcac", "fedpurin"])
def test_everything_critical_is_local_training_after_beta(method: str) -> None:
    run = toys.run(method, ALL | {"beta": 1}, model="tiny-bn", sizes=toys.EQUAL)
    assert torch.equal(run.state["w"], run.fed.trained)
    assert toys.traffic(run, "down_values")[1:] == [0.0, 0.0]


def transcription(
    fed: Federation, method: str, rounds: int, *, tau: float, beta: int, floor: float
) -> list[Tensor]:
    """FedCAC and FedPURIN (exact gradient, no Hessian, no normalisation layers) client by client,
    tensor by tensor.
    """
    n, w = fed.N, [fed.new_model()] * fed.N
    share = plain.weights(fed, list(range(n)))
    for t in range(1, rounds + 1):
        ends, masks = [], []
        for i in range(n):
            end, grad = plain.train(fed, w[i], i, t)
            effect = (end - w[i]) * end if method == "fedcac" else grad.half().double() * end
            mask = torch.zeros(fed.D, dtype=torch.bool)
            for s in fed.params:
                score = effect[s.place].abs()
                bar = score.sort(descending=True).values[int(tau * s.size) - 1]
                if bar <= 1e-10:
                    alive = score[score > floor]
                    bar = alive.min() if len(alive) else (bar if method == "fedcac" else torch.inf)
                mask[s.place] = score >= bar
            masks.append(mask)
            ends.append(end if method == "fedcac" else end * mask)
        pairs = {
            (i, j): 1 - float((masks[i] != masks[j]).sum()) / max(2 * float(masks[i].sum()), 1)
            for i, j in permutations(range(n), 2)
        }
        mean, most = sum(pairs.values()) / len(pairs), max(pairs.values())
        average = sum(p * end for p, end in zip(share, ends, strict=True))
        new = []
        for i in range(n):
            bar = mean + t / beta * (most - mean)
            close = [j for j in range(n) if j != i and pairs[i, j] >= bar]
            mixed = (ends[i] + sum(ends[j] for j in close)) / (len(close) + 1)
            new.append(torch.where(masks[i], mixed, average))
        w = new
    return w


@pytest.mark.parametrize(("method", "floor"), [("fedcac", 1e-20), ("fedpurin", 1e-10)])
def test_method_follows_its_plain_transcription(method: str, floor: float) -> None:
    run = toys.run(method, {"tau": 0.4, "beta": 4}, sizes=(25, 7, 40, 16), dtype=torch.float64)
    expected = transcription(run.fed, method, 3, tau=0.4, beta=4, floor=floor)
    assert max(plain.apart(a, b) for a, b in zip(expected, run.state["w"], strict=True)) < 1e-9


def test_fedcac_bills_model_and_bitmap_up_and_only_news_down_after_beta() -> None:
    run = toys.run("fedcac", {"beta": 2}, model="tiny-bn", sizes=toys.EQUAL)
    size = run.fed.params.parameters
    assert toys.traffic(run, "up_values") == [4 * 4 * size] * 3
    assert toys.traffic(run, "up_codes") == [4 * ((size + 7) // 8)] * 3
    assert toys.traffic(run, "down_values")[:2] == [4 * 4 * size] * 2
    halves = sum(int(0.5 * s.size) for s in run.fed.params if s.kind != "stat")
    # ties may add critical entries
    assert toys.traffic(run, "down_values")[2] == pytest.approx(4 * 4 * (size - halves), rel=0.02)
    assert toys.traffic(run, "down_codes") == [0] * 3


def test_fedpurin_sending_all_but_normalisation_is_fedbn() -> None:
    one = toys.run("fedpurin", ALL, model="tiny-bn", sizes=toys.EQUAL, dtype=torch.float64)
    other = toys.run("fedbn", model="tiny-bn", sizes=toys.EQUAL, dtype=torch.float64)
    assert plain.apart(toys.everybody(other), one.state["w"]) < 1e-12


@pytest.mark.parametrize("cutoff", ["off", "empty"])
def test_fedpurin_uploads_as_many_values_as_its_mask_has_ones(cutoff: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "evaluation": {"tallies": ("mask",)}}
    run = toys.run("fedpurin", {"cutoff": cutoff}, sizes=toys.EQUAL, rounds=1, **how)
    ones = int(run.fed.masks_counted["mask"].sum())
    processed = int((run.fed.params.learnable & ~run.fed.params.norm).sum())
    halves = 4 * sum(int(0.5 * s.size) for s in run.fed.params if s.kind not in ("norm", "stat"))
    assert toys.traffic(run, "up_values") == [4 * ones]
    assert toys.traffic(run, "up_codes") == [4 * ((processed + 7) // 8)]
    # dead units of the toy net are cut off
    assert ones >= halves if cutoff == "off" else ones < halves


def test_fedpurin_bills_no_downlink_for_entries_that_stay_the_clients_own() -> None:
    run = toys.run("fedpurin", {"rest": "own", "beta": 1}, model="tiny-bn", sizes=toys.EQUAL)
    sent, received = toys.traffic(run, "up_values"), toys.traffic(run, "down_values")
    assert 0 < received[0] <= sent[0]  # an entry that is critical and zero is no news
    assert received[1:] == [0.0, 0.0]


def test_fedpurin_scores_the_sparsified_and_the_trained_model() -> None:
    run = toys.run("fedpurin", {"tau": 0.05}, rounds=1)
    points = {name.split("/")[0] for _, name, _ in run.rows if name.endswith("/mean")}
    assert points == {"pre_agg", "dense", "post_agg"}


def test_hessian_changes_no_mask_when_effects_are_small_and_positive() -> None:
    run = toys.run("fedpurin", rounds=1)
    theta = torch.linspace(0.01, 0.5, run.fed.D).expand(6, -1)
    grad = torch.ones_like(theta)
    other = build("fedpurin", {"hessian": True})
    masks = [method.critical(run.fed, theta, grad) for method in (run.method, other)]  # type: ignore[attr-defined]
    assert torch.equal(*masks)
