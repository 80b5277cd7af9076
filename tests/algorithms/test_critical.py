"""fedcac and fedpurin: which entries are critical, and who collaborates."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math import critical
from tests.algorithms import toys


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


def test_the_largest_overlap_reaches_the_last_bar_however_sums_round() -> None:
    counts = torch.from_numpy(Streams(0).at("counts").integers(0, 73, (200, 6, 6)))
    counts.diagonal(dim1=1, dim2=2).zero_()
    for overlap in counts.double() / 72:
        pairs = critical.collaborators(overlap, 1.0)
        assert torch.equal(pairs, overlap == overlap.max())
    alone = torch.ones(1, 1, dtype=torch.float64)
    assert critical.collaborators(alone, 0.5).sum() == 0


def test_fedpurin_scores_the_sparsified_and_the_trained_model() -> None:
    run = toys.run("fedpurin", {"tau": 0.05}, rounds=1)
    points = {name.split("/")[0] for _, name, _ in run.rows if name.endswith("/mean")}
    assert points == {"pre_agg", "dense", "post_agg"}
