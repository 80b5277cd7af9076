"""Main scripts that draw cohorts and data as FedRep's and FedBABU's do, run as published to the end
with our cohorts and our batches; the models that they would score are caught where they score them.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.rng import cohort
from tests.references import nets
from tests.references.loaders import Passes, epochs


def cohorts(fed: Federation, rounds: int) -> list[list[int]]:
    """Half of the clients, as ours are drawn, round by round."""
    return [cohort(fed.streams, fed.N, fed.N // 2, t).tolist() for t in range(1, rounds + 1)]


def loaders(fed: Federation, called: list[list[int]]) -> list[Passes]:
    """The data loaders of these cohorts, in the order of their training."""
    return [epochs(fed, c, t) for t, clients in enumerate(called, 1) for c in clients]


def played(
    monkeypatch: pytest.MonkeyPatch,
    script: Path,
    fed: Federation,
    rename: nets.Rename,
    called: Iterable[Any],
    feed: Iterable[Passes],
) -> tuple[Tensor, dict[str, Any]]:
    """What everybody is scored with each time  [times, N, D], and the names that are left."""
    scored, cohorts, ahead = [], iter(called), iter(feed)

    def score(net: Any, *_: Any, **__: Any) -> tuple[float, float]:
        scored.append(nets.join(fed, net.state_dict(), rename))
        return 0.0, 0.0

    monkeypatch.setattr(np.random, "choice", lambda *_, **__: next(cohorts))
    monkeypatch.setattr(import_module("models.Update"), "DataLoader", lambda *_, **__: next(ahead))
    monkeypatch.setattr(import_module("models.test"), "test_img_local", score)
    names = runpy.run_path(str(script), run_name="__main__")
    return torch.stack(scored).view(-1, fed.N, fed.D), names
