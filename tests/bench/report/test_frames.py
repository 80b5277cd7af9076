"""The two frames of a report: their columns are documented, and files hold what pages show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from repfl.bench.evidence import runs
from repfl.bench.evidence.cell_evidence import CellEvidence, Records
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import build, numbers, overview, unchanged
from repfl.bench.store.store import Store

PAPER = "star-pfl"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[build.WrittenReport, Path]:
    """A report of one paper from committed runs alone."""
    folder = tmp_path_factory.mktemp("frames")
    planned = [
        item for scale in ("desk", "paper") for item in plan(Selection([PAPER], scale=scale))
    ]
    request = build.Request(planned, best=True)
    return build.report(request, Store(folder / "results"), folder / "report"), folder / "report"


def test_every_column_of_both_frames_is_documented(tmp_path: Path) -> None:
    planned = plan(Selection([PAPER], scale="desk"))
    evidence = CellEvidence(Records(Store(tmp_path)), committed_runs.read(PAPER, "desk"))
    frame = runs.runs(planned, evidence)
    assert [name for name in frame if "." not in name] == list(runs.COLUMNS)
    prefixes = {name.partition(".")[0] for name in frame if "." in name}
    assert prefixes <= {"hp", "recipe", "partition", "floor", "traffic", "work"}
    assert frame["id"].is_unique
    assert set(frame["id"]) == {item.cell.id for item in planned}


def test_only_what_was_trained_is_called_reproduced() -> None:
    trained = numbers.Number("p", "t", "i", "row", "c", "C", verdict="reproduced", kind="log value")
    computed = replace(trained, kind="computed exactly")
    assert (trained.verdict_text, computed.verdict_text) == ("reproduced", "matches")
    assert replace(computed, verdict="differs").verdict_text == "differs"
    assert computed.verdict_with_mark == "matches"
    assert overview.state(computed.verdict_text) == overview.state(trained.verdict_text)


def test_an_interval_that_says_nothing_is_not_shown() -> None:
    wide = numbers.Number(
        "p", "t", "i", "row", "c", "C", "%", difference=-2.0, difference_low=-49.0,
        difference_high=45.0,
    )  # fmt: skip
    assert wide.difference_text == "−2.00 [too few runs for an interval]"
    assert "−6.00" in replace(wide, difference_low=-6.0, difference_high=2.0).difference_text


def test_the_files_hold_every_number_and_every_planned_cell(
    report: tuple[build.WrittenReport, Path],
) -> None:
    written, folder = report
    shown = pd.read_csv(folder / "numbers.csv", keep_default_na=False)
    assert list(shown) == list(numbers.COLUMNS)
    expected = {(s.paper, s.name, n.id) for s in written.sheets for n in s.numbers}
    assert set(zip(shown["paper"], shown["artefact"], shown["id"], strict=True)) == expected
    cells = pd.read_csv(folder / "runs.csv", keep_default_na=False, low_memory=False)
    behind = {cell for text in shown["runs"] for cell in text.split()}
    assert behind
    assert behind <= set(cells.loc[cells["status"] == "done", "id"])


def test_the_csv_of_a_table_has_the_values_of_the_frame(
    report: tuple[build.WrittenReport, Path],
) -> None:
    _, folder = report
    shown = pd.read_csv(folder / "numbers.csv")
    tables = [
        path for path in folder.glob(f"{PAPER}/table*.csv") if path.stem in set(shown.artefact)
    ]
    assert tables
    for path in tables:
        table = pd.read_csv(path).set_index(["row", "column"])
        same = shown[shown["artefact"] == path.stem].set_index(["row", "column"])
        assert set(same.index) == set(table.index)
        pd.testing.assert_series_equal(
            same["ours"], table["ours"].reindex(same.index).astype(float), check_dtype=False
        )
        printed = table.get("printed", pd.Series(index=table.index, dtype=float))
        pd.testing.assert_series_equal(
            same["printed"], printed.reindex(same.index).astype(float), check_names=False
        )


def test_a_report_is_unchanged_until_an_input_or_a_file_changes(tmp_path: Path) -> None:
    store, out, grid = Store(tmp_path / "results"), tmp_path / "report", tmp_path / "grid.toml"
    out.mkdir()
    grid.write_text("one")
    (out / "index.html").write_text("page")
    before = unchanged.digest("request", store, [grid])
    assert unchanged.ending(out, before) is None
    unchanged.remember(out, before, unchanged.Ending(runs=3, code=1))
    assert unchanged.ending(out, unchanged.digest("request", store, [grid])) == (3, 1)
    assert unchanged.ending(out, unchanged.digest("another", store, [grid])) is None
    (store.root / "cell").mkdir(parents=True)
    (store.root / "cell" / "record.json").write_text("{}")
    assert unchanged.digest("request", store, [grid]) != before
    (store.root / "cell" / "record.json").unlink()
    grid.write_text("longer")
    assert unchanged.digest("request", store, [grid]) != before
    plugin = tmp_path / "plugin" / "mine.py"
    plugin.parent.mkdir()
    plugin.write_text("import helper")
    alone = unchanged.digest("request", store, [plugin])
    (plugin.parent / "helper.py").write_text("X = 1")
    assert unchanged.digest("request", store, [plugin]) != alone
    (out / "index.html").unlink()
    assert unchanged.ending(out, before) is None
