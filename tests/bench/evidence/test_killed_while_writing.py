"""`report` and `collect`, killed in the moment of writing: what was there stays whole, and the next
call writes what one call would have written.
"""

from __future__ import annotations

from pathlib import Path

from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import build
from repfl.bench.store.store import Store
from tests.bench.conftest import digests
from tests.bench.deaths import begin, last_words

DEATHS = 3
"""Deaths of a report, spread over its many writes."""


def files(folder: Path) -> dict[str, bytes]:
    """The files below a folder whose bytes are the same each time."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.suffix != ".pdf" else b""
        for path in paths
    }


def test_a_killed_collect_keeps_what_was_committed_and_is_made_good(
    grid: Path, results: Path, tmp_path: Path
) -> None:
    planned, store = plan(Selection(files=[grid])), Store(results)

    def first(root: Path) -> None:
        collect([item for item in planned if item.cell.seed == 0], store, root, "somebody")

    def both(root: Path) -> int:
        return sum(added for _, added, _ in collect(planned, store, root, "somebody").files)

    first(tmp_path / "whole")
    old = files(tmp_path / "whole")
    added, moves = last_words(*begin(tmp_path / "whole", lambda: both(tmp_path / "whole")))
    whole = files(tmp_path / "whole")
    assert (added, moves >= 2) == (4, True)
    assert whole.keys() == old.keys()
    for death in range(1, moves + 1):
        root = tmp_path / str(death)
        first(root)
        assert last_words(*begin(root, lambda root=root: both(root), death)) is None
        assert {name: data for name, data in files(root).items() if name in old} == old
        known = committed_runs.read("tests", "smoke", root)
        assert (len(known.lines), known.problems) == (4, [])
        both(root)
        assert files(root) == whole


def test_a_killed_report_costs_no_record_and_is_made_good(
    grid: Path, results: Path, tmp_path: Path
) -> None:
    request, store = build.Request(plan(Selection(files=[grid]))), Store(results)
    before = digests(results)

    def write(out: Path) -> int:
        return build.report(request, store, out).runs

    write(tmp_path / "whole")  # here, so that what it imports is not imported in every fork
    whole, out = files(tmp_path / "whole"), tmp_path / "other"
    runs, moves = last_words(*begin(out, lambda: write(out)))
    assert (runs, moves > 20) == (8, True)
    for death in range(1, moves + 1, moves // DEATHS):
        assert last_words(*begin(out, lambda: write(out), death)) is None
        assert digests(results) == before
    write(out)
    assert files(out) == whole
