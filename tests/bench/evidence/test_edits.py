"""A number that somebody wrote does not pass for one that somebody computed.

Every kind of edit is planted three times: by hand; by somebody who also computes the checksums
again, in measured lines; and likewise in the store. Arithmetic finds what it can tell; the rest
does not come out again.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from repfl.bench.check import arithmetic
from repfl.bench.check.verify import Verification
from repfl.bench.check.verify import verify as verify_store
from repfl.bench.evidence import measured, recheck
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.lines import Line, packed
from repfl.bench.evidence.packing import Curve, pack_counts
from repfl.bench.grid.plan import Planned, Selection, plan
from repfl.bench.run.task import Options, Task
from repfl.bench.run.work import run_task
from repfl.bench.store.store import Record, Store

PAPER, POINTS = "fedobp", 0.1
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Planned], Path]]:
    """Two cells of one table, FedOBP and FedAvg, computed and collected."""
    folder = tmp_path_factory.mktemp("edits")
    items = plan(Selection(artefacts=["fedobp/table3"], seeds=[42], datasets=["digits"]))
    items = [
        item
        for item in items
        if item.column == "cifar10-dir0.1" and item.row in ("FedOBP", "FedAvg")
    ]
    store = Store(folder / "results")
    store.open()
    for item in items:
        assert (
            run_task(
                Task(item.cell), Options(str(store.root)), lambda *_: None, lambda: False
            ).status
            == "done"
        )
    collect(items, store, folder / "papers", "founders")
    yield items, folder
    shutil.rmtree(folder)


@pytest.fixture
def copy(original: tuple[list[Planned], Path], tmp_path: Path) -> Path:
    """A folder in which a test may write what it likes."""
    shutil.copytree(original[1], tmp_path, dirs_exist_ok=True)
    return tmp_path


# -- the edits, on what a line or a record says ----------------------------------------------------


def everywhere(metrics: dict[str, Any], by: float) -> None:
    """Move every accuracy of a summary."""
    metrics["value"] += by
    for point in metrics["points"].values():
        for rule in ("last", "max"):
            point[rule] |= {
                name: value + by
                for name, value in point[rule].items()
                if name in ("mean", "pooled")
            }


def swapped(metrics: dict[str, Any]) -> None:
    points = metrics["points"]
    one, other = points
    points[one], points[other] = points[other], points[one]


EDITS: dict[str, Change] = {
    "ten points more, everywhere": lambda said: everywhere(said["metrics"], POINTS),
    "another value": lambda said: said["metrics"].update(value=0.9),
    "7.5 as an accuracy": lambda said: said["metrics"].update(value=7.5),
    "another round": lambda said: said["metrics"].update(round=1),
    "less traffic": lambda said: said["metrics"]["traffic"].update(up_values=4),
    "another floor": lambda said: said["metrics"]["floor"].update(clients=0.1, pooled=0.1),
    "a smaller model": lambda said: said["metrics"].update(parameters=12),
    "the summaries of two points swapped": lambda said: swapped(said["metrics"]),
    "a zeroed digest": lambda said: said["provenance"]["digests"].update(state="0" * 64),
    "another digest": lambda said: said["provenance"]["digests"].update(state="1" * 64),
    "another partition": lambda said: said["provenance"].update(partition="2" * 64),
    "other samples": lambda said: said["provenance"].update(samples=3),
}
"""Edits of metrics and provenance, which lines and records share."""
BY_RERUN = {"another digest"}
"""What nothing but computing the cell again can tell of a line."""
BY_RERUN_IN_LINES = BY_RERUN | {"less traffic"}


def victim(known: measured.Measured) -> Line:
    """FedOBP's line: its bytes have no closed form."""
    return next(line for line in known.lines if line.axes["method"] == "fedobp")


def edited(line: Line, change: Change) -> Line:
    """A line after an edit, with every checksum computed again."""
    said = json.loads(
        json.dumps({"metrics": line.record.metrics, "provenance": line.record.provenance})
    )
    change(said)
    return replace(line, record=replace(line.record, **said))


def forge(root: Path, change: Callable[[Line], Line]) -> None:
    """Put a changed line in the place of the victim's, with checksums and index computed again."""
    known = measured.read(PAPER, "smoke", root)
    line = victim(known)
    known.forget(line)
    known.add(change(line))
    measured.write(known)


def said_of(found: Verification) -> str:
    return " | ".join(found.findings)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_by_hand_is_found_at_once(copy: Path, edit: str) -> None:
    path = copy / "papers" / PAPER / "measured" / "smoke.csv"
    changed = {}
    for row in (rows := list(csv.DictReader(path.open()))):
        if row["method"] == "fedobp":
            said = {
                "metrics": json.loads(row["metrics"]),
                "provenance": {**row, "digests": json.loads(row["digests"])},
            }
            EDITS[edit](said)
            changed = {name: said["provenance"][name] for name in ("partition", "samples")}
            changed |= {name: json.dumps(value) for name, value in (("metrics", said["metrics"]),)}
            changed["digests"] = json.dumps(said["provenance"]["digests"])
            row.update(changed, value=str(said["metrics"]["value"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    found = recheck.verify([PAPER], root=copy / "papers")
    assert len(found.findings) == 1
    assert "does not hold" in found.findings[0]


@pytest.mark.parametrize("edit", EDITS)
def test_a_forged_line_is_found_by_arithmetic_or_by_computing_it_again(
    copy: Path, edit: str
) -> None:
    root = copy / "papers"
    forge(root, lambda line: edited(line, EDITS[edit]))
    told = recheck.verify([PAPER], root=root)
    assert bool(told.findings) == (edit not in BY_RERUN_IN_LINES), said_of(told)
    if not told.findings:
        assert "does not come out again" in said_of(recheck.verify([PAPER], rerun=2, root=root))


@pytest.mark.parametrize("edit", EDITS)
def test_a_forged_record_is_found_by_arithmetic_or_by_computing_it_again(
    copy: Path, original: tuple[list[Planned], Path], edit: str
) -> None:
    store = Store(copy / "results")
    record = _victim(store, original[0])
    said = json.loads(json.dumps({"metrics": record.metrics, "provenance": record.provenance}))
    EDITS[edit](said)
    _rewrite(store, replace(record, **said))
    told = verify_store(store)
    assert bool(told.findings) == (edit not in BY_RERUN), said_of(told)
    if not told.findings:
        assert "does not come out again" in said_of(verify_store(store, rerun=2))


def _victim(store: Store, items: list[Planned]) -> Record:
    (cell,) = (item.cell.id for item in items if item.cell.method == "fedobp")
    record = store.get(cell)
    assert record is not None
    return record


def _rewrite(store: Store, record: Record) -> None:
    """Write a record as its store would, its files as they are."""
    siblings = {name: (store.folder(record.id) / name).read_bytes() for name in record.files}
    store.put(record, siblings)


# -- edits of curves and counts --------------------------------------------------------------------


def lifted(line: Line) -> Line:
    """One sample more in the counts, and the curve and the summary in step with them."""
    name, counts = next(iter(line.curves)), line.counts
    assert counts is not None
    correct = counts.correct.copy()
    correct[(correct < counts.total).argmax()] += 1
    right = arithmetic.accuracies(correct, counts.total)
    curve = line.curves[name]
    values = curve.values.copy()
    values[-1] = right["pooled"]

    def change(said: dict[str, Any]) -> None:
        point = said["metrics"]["points"][name.split("/")[0]]
        point["last"] |= right
        point["max"]["pooled"] = float(values.max())
        said["metrics"]["value"] = right["pooled"]

    own = edited(line, change)
    curves = {name: Curve(curve.rounds, values)}
    return replace(own, counted=pack_counts(counts._replace(correct=correct)), drawn=packed(curves))


@dataclass(frozen=True)
class Kept:
    """An edit of what stands beside a line's metrics."""

    change: Callable[[Line], Line]
    words: str
    rerun: int = 0


KEPT = {
    "an edited curve": Kept(
        lambda line: replace(
            line,
            drawn=packed({n: Curve(c.rounds, c.values + POINTS) for n, c in line.curves.items()}),
        ),
        "is not that of its curve",
    ),
    "edited counts": Kept(
        lambda line: replace(
            line,
            counted=pack_counts(
                line.counts and line.counts._replace(correct=line.counts.correct + 1)
            ),
        ),
        "is not that of its counts",
    ),
    "no curve": Kept(
        lambda line: replace(line, drawn={}), "the curve that its value is from is missing"
    ),
    "curve, counts and summary in step": Kept(lifted, "does not come out again", rerun=2),
}


@pytest.mark.parametrize("edit", KEPT)
def test_forged_curves_and_counts_are_found(copy: Path, edit: str) -> None:
    kept, root = KEPT[edit], copy / "papers"
    forge(root, kept.change)
    found = recheck.verify([PAPER], rerun=kept.rerun, root=root)
    assert any(kept.words in finding for finding in found.findings), said_of(found)


def test_forged_curves_of_a_record_are_found(
    copy: Path, original: tuple[list[Planned], Path]
) -> None:
    store = Store(copy / "results")
    record = _victim(store, original[0])
    frame = pd.read_parquet(store.folder(record.id) / "rounds.parquet")
    frame.loc[frame["name"] == "post_agg/pooled", "value"] += POINTS
    frame.to_parquet(store.folder(record.id) / "rounds.parquet")
    _rewrite(store, record)
    assert "digests.curves is not that of its curves" in said_of(verify_store(store))


# -- edits of whole lines --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:-1], "holds 1 lines, and index.csv says 2"),
        (lambda lines: [*lines, lines[1]], "stands twice for platform"),
        (lambda lines: [lines[0], lines[1].replace(",1,", ",2,", 1), *lines[2:]], "does not hold"),
    ],
    ids=["a dropped line", "a line that stands twice", "another version"],
)
def test_a_file_that_lost_or_gained_a_line_is_found(
    copy: Path, change: Callable[[list[str]], list[str]], words: str
) -> None:
    path = copy / "papers" / PAPER / "measured" / "smoke.csv"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    assert words in said_of(recheck.verify([PAPER], root=copy / "papers"))


def test_an_edited_origin_is_found(copy: Path) -> None:
    path = copy / "papers" / PAPER / "measured" / "smoke-origins.csv"
    path.write_text(
        path.read_text().replace('""precision""', '""precision""').replace(",default,", ",fp64,")
    )
    assert "does not hold" in said_of(recheck.verify([PAPER], root=copy / "papers"))


def test_a_report_refuses_a_line_that_does_not_hold_and_shows_the_others(
    copy: Path, original: tuple[list[Planned], Path]
) -> None:
    from repfl.bench.evidence.artefacts import make
    from repfl.bench.evidence.library import Library

    forge(copy / "papers", lambda line: edited(line, EDITS["another value"]))
    made = make(original[0], Library(Store(copy / "none")), copy / "papers")
    assert len(made.problems) == 1
    assert "value is not that of its curve; not used" in made.problems[0]
    assert len(made.measured) == 1
