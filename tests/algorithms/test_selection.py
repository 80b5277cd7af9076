"""Choosing entries by rank: ties go to the earlier entry, whichever way a device takes; counts need
no copy of a mask.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.engine.params import count_true
from repfl.algorithms.math.masks import topk_mask, topk_threshold
from repfl.algorithms.math.sparse import erk_counts


@pytest.mark.parametrize("kinds", [2, 5, 1000], ids=["mostly ties", "some ties", "hardly any"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_selection_in_linear_time_takes_the_entries_that_sorting_takes(
    kinds: int, dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(kinds)
    scores = torch.from_numpy(rng.integers(-kinds, kinds, (9, 40))).to(dtype)
    if dtype.is_floating_point:
        scores[:, ::7] = -torch.inf
    counts = torch.tensor([0, 1, 5, 20, 33, 34, 39, 40, 2])
    chosen = topk_mask(scores, counts)
    order = scores.argsort(dim=1, descending=True, stable=True)
    first = torch.arange(40) < counts[:, None]
    assert torch.equal(chosen, torch.zeros_like(chosen).scatter_(1, order, first))
    assert chosen.sum(1).tolist() == counts.tolist()


@pytest.mark.parametrize("rows", [1, 16, 37])
def test_counting_a_mask_in_blocks_counts_it(rows: int) -> None:
    mask = torch.from_numpy(np.random.default_rng(rows).random((rows, 50)) < 0.3)
    assert torch.equal(count_true(mask), mask.sum(1))
    assert count_true(mask[0]) == mask[0].sum()


@pytest.mark.parametrize("kinds", [2, 5, 100_000], ids=["mostly ties", "some ties", "hardly any"])
def test_the_least_of_the_largest_is_the_kth_largest(kinds: int) -> None:
    scores = torch.from_numpy(np.random.default_rng(kinds).integers(0, kinds, (4, 300))).float()
    for count in (1, 2, 150, 299, 300):
        least = scores.topk(count, dim=1, sorted=False).values.amin(1, keepdim=True)
        assert torch.equal(least, topk_threshold(scores, count))


@pytest.mark.parametrize("density", [0.2, 0.5, 0.9, 1.0])
def test_erk_spends_its_budget_on_any_model(density: float) -> None:
    layout = models.build("tiny-bn", channels=1, size=8, classes=4).params
    found = erk_counts(layout, density)
    assert sum(found.values()) == pytest.approx(density * layout.parameters, abs=len(found))
    assert set(found) == {s.name for s in layout if s.kind != "stat"}
