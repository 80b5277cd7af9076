"""The toy on which equations are tried gives the committed numbers again."""

from __future__ import annotations

import runpy
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
import torch

from repfl.bench.grid.grid import files

EQUATIONS = runpy.run_path(str(Path(__file__).parents[2] / "bench/studies/equations.py"))
TRIED, Toy = EQUATIONS["TRIED"], EQUATIONS["Toy"]


@pytest.mark.parametrize("paper", list(TRIED))
def test_the_committed_numbers_are_made_again(paper: str) -> None:
    committed = pd.read_csv(files()[paper].parent / "propositions.csv")
    first = pd.DataFrame(islice(TRIED[paper](Toy(0)), 2))
    assert list(first["quantity"]) == list(committed["quantity"][:2])
    assert first["value"].tolist() == pytest.approx(committed["value"][:2].tolist(), abs=2e-3)


def test_the_gradient_is_that_of_the_loss() -> None:
    toy = Toy(1)
    samples, step = toy.clients[0], torch.randn_like(toy.start) * 1e-6
    change = float(toy.loss(toy.start + step, samples) - toy.loss(toy.start - step, samples)) / 2
    assert change == pytest.approx(float(toy.gradient(toy.start, samples) @ step), rel=1e-4)
