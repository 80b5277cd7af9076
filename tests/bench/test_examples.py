"""The example grids that come with the harness are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.grid.grid import read
from repfl.bench.grid.plan import Selection, plan
from tests.bench.conftest import ROOT

EXAMPLES = sorted((ROOT / "bench/examples").glob("*.toml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_grids_are_valid_at_every_scale_that_they_have(file: Path) -> None:
    for scale in read(file).file.scales:
        assert plan(Selection(files=[file], scale=scale))
