"""Choosing entries by rank: ties go to the earlier entry, whichever way a device takes; counts need
no copy of a mask.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from repfl.algorithms.core import importance
from repfl.algorithms.core.layout import _above_a_bar, _first_in_order, counted, kth_largest


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
    chosen = _above_a_bar(scores, counts)
    assert torch.equal(chosen, _first_in_order(scores, counts))
    assert chosen.sum(1).tolist() == counts.tolist()


@pytest.mark.parametrize("rows", [1, 16, 37])
def test_counting_a_mask_in_blocks_counts_it(rows: int) -> None:
    mask = torch.from_numpy(np.random.default_rng(rows).random((rows, 50)) < 0.3)
    assert torch.equal(counted(mask), mask.sum(1))
    assert counted(mask[0]) == mask[0].sum()


@pytest.mark.parametrize("q", [0.0, 0.31, 0.5, 0.999, 1.0])
def test_quantile_of_many_ties_is_numpys(q: float) -> None:
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (3, 101))).double()
    expected = np.quantile(rows.numpy(), q, axis=1, keepdims=True)
    assert importance.quantile(rows, q).numpy() == pytest.approx(expected)


@pytest.mark.parametrize("kinds", [2, 5, 100_000], ids=["mostly ties", "some ties", "hardly any"])
@pytest.mark.parametrize("size", [1, 2, 101, 4000])
def test_selecting_from_an_end_finds_what_partitioning_finds_bit_for_bit(
    kinds: int, size: int
) -> None:
    rng = np.random.default_rng(kinds)
    rows = torch.from_numpy(rng.integers(0, kinds, (3, size))).float() / 7
    for below in {0, size // 3, size // 2, size - 1}:
        ranks = below, min(below + 1, size - 1)
        found, wanted = importance._from_an_end(rows, *ranks), importance._at_ranks(rows, *ranks)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("kinds", [2, 5, 100_000], ids=["mostly ties", "some ties", "hardly any"])
def test_the_least_of_the_largest_is_the_kth_largest(kinds: int) -> None:
    scores = torch.from_numpy(np.random.default_rng(kinds).integers(0, kinds, (4, 300))).float()
    for count in (1, 2, 150, 299, 300):
        least = scores.topk(count, dim=1, sorted=False).values.amin(1, keepdim=True)
        assert torch.equal(least, kth_largest(scores, count))
