"""Every cell of the grid can be planned."""

from __future__ import annotations

from pathlib import Path

from repfl.bench.grid.plan import Selection, plan

FILE = Path(__file__).with_name("my_grid.toml")


def test_every_cell_can_be_planned() -> None:
    planned = plan(Selection(files=[FILE]))
    assert planned
    assert not [item for item in planned if item.skip]
