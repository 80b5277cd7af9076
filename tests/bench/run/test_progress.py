"""Progress: quiet where nothing takes time, plain where nobody watches, and honest about what is
left.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import unique
from repfl.bench.run import progress
from repfl.bench.run.task import Outcome


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_run_is_told(
    grid: Path, stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.0)
    cells, out = [item.cell for item in unique(plan(Selection(files=[grid])))], stream()
    told = progress.Progress(out)
    with told.running(cells, {cell.id: 1.0 for cell in cells}, 3, 2):
        told.round(cells[0].id, 1)
        assert told.share == pytest.approx(1 / 16)
        told.finish(Outcome(cells[0].id, "done"))
        assert told.share == pytest.approx(1 / 8)
        told.finish(Outcome(cells[1].id, "failed", "no luck"))
    text = out.getvalue()
    assert "8 cells to compute, 3 are there already; about 4 s on 2 workers" in text
    assert "failed: local on digits, seed 1" in text
    assert "no luck" in text
    assert "2 of 8 cells ended" in text


def test_the_time_to_go_is_the_expected_one_first_and_counts_no_round_of_an_earlier_run(
    grid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, clock = [item.cell for item in unique(plan(Selection(files=[grid])))][:1], [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    for known, early in ((True, "60 s"), (False, "?")):
        told = progress.Progress(io.StringIO())
        with told.running(cells, {cells[0].id: 120.0}, 0, 1, known):
            half = cells[0].rounds // 2
            told.round(cells[0].id, half)  # the checkpoint it goes on from
            assert told.remaining() == early
            clock[0] += 10
            told.round(cells[0].id, half + 1)
            assert told.remaining() == f"{10 * (cells[0].rounds - half - 1)} s"


def test_cells_that_are_refused_are_not_counted_as_ended(grid: Path) -> None:
    first, second, *_ = (item.cell for item in unique(plan(Selection(files=[grid]))))
    for cells, last in (([], "refused: "), ([first], "0 of 1 cells ended")):
        out = io.StringIO()
        told = progress.Progress(out)
        with told.running(cells, {cell.id: 1.0 for cell in cells}, 0, 1):
            told.finish(Outcome(second.id, "refused", "no room"))
        assert "no room" in out.getvalue()
        assert out.getvalue().splitlines()[-1].startswith(last)
