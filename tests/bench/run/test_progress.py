"""Progress: plain where nobody watches, and honest about what is left."""

from __future__ import annotations

import io

import pytest

from repfl.bench.grid.planned import unique
from repfl.bench.run import progress
from repfl.bench.run.task import Outcome
from tests.bench.conftest import Planning


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_run_is_told(
    planned: Planning, stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.0)
    cells, out = [item.cell for item in unique(planned())], stream()
    told = progress.Progress(out)
    with told.running(cells, {cell.id: 1.0 for cell in cells}, 3, 2):
        told.round(cells[0].id, 1)
        assert told.share == pytest.approx(1 / 16)
        told.finish(Outcome(cells[0].id, "done"))
        assert told.share == pytest.approx(1 / 8)
        told.finish(Outcome(cells[1].id, "failed", "no luck"))
        told.finish(Outcome("f" * 64, "refused", "no room"))
    text = out.getvalue()
    for words in ("about 4 s on 2 workers", "no luck", "no room", "2 of 8 cells ended"):
        assert words in text


def test_a_pipe_without_a_reader_costs_no_cell(
    planned: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(progress, "QUIET", 0.0)
    cells = [item.cell for item in unique(planned())]
    told = progress.Progress(Closed())
    with told.running(cells, {cell.id: 1.0 for cell in cells}, 0, 1):
        told.round(cells[0].id, 1)
        told.finish(Outcome(cells[0].id, "failed", "no luck"))
    assert told.done == 1


def test_the_time_to_go_is_the_expected_one_first_and_counts_no_round_of_an_earlier_run(
    planned: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell, *_), clock = [item.cell for item in planned()], [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    for known, early in ((True, "60 s"), (False, "?")):
        told = progress.Progress(io.StringIO())
        with told.running([cell], {cell.id: 120.0}, 0, 1, known):
            half = cell.rounds // 2
            told.round(cell.id, half)  # the checkpoint it goes on from
            assert told.remaining() == early
            clock[0] += 10
            told.round(cell.id, half + 1)
            assert told.remaining() == f"{10 * (cell.rounds - half - 1)} s"
