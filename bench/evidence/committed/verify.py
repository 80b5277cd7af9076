"""`repfl verify`: is every stored record, or every published result, as it was written, consistent
with itself and with today's data, and do some of them give the same again?
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repfl.bench.errors import Corrupt, UserError, one_line
from repfl.bench.evidence.committed import agreement, committed_runs, consistency
from repfl.bench.evidence.committed.committed_run import Line, line_of
from repfl.bench.evidence.committed.committed_runs import Measured
from repfl.bench.grid import grid as grids
from repfl.bench.grid.cell import Cell, canonical, reopen
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.run.attempt import run_task
from repfl.bench.run.machine import like, prepare_process, settings_restored
from repfl.bench.run.task import Options, Task
from repfl.bench.store.provenance import data_moved
from repfl.bench.store.store import Record, Store
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.paper_tables.core.statistics.verdict import MARGIN

if TYPE_CHECKING:
    from repfl.bench.run.progress import Progress

REPRODUCIBLE = ("partition", "samples", "data", "digests")
"""Provenance that another run gives again."""
EVERYWHERE = ("metrics.floor", "metrics.parameters", "partition", "samples", "data")
"""What every platform gives again, to the bit."""
GPU = "a GPU"


@dataclass
class Verification:
    """What was looked at and what was found."""

    records: int = 0
    rerun: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """A record that can be computed again."""

    record: Record
    line: Line | None = None
    """The published line that it is from."""
    known: Measured | None = None
    """The lines beside that one."""

    @property
    def name(self) -> str:
        return f"record {self.record.id[:12]}"

    @property
    def allowed(self) -> float:
        """How far another platform may move the value."""
        if self.line is None or self.known is None:
            return inf
        return agreement.allowed(self.line, self.known)


def of_store(store: Store, rerun: int = 0, seed: int = 0) -> Verification:
    """Check every record of a store, and compute `rerun` of them again."""
    found = Verification()
    if not store.root.is_dir():
        raise UserError(
            f"results folder {store.root}: does not exist; name another with --results DIR"
        )
    sound = [
        Subject(record)
        for cell in _folders(store, found)
        if (record := _stored(store, cell, found))
    ]
    _check(sound, rerun, seed, found)
    return found


def _folders(store: Store, found: Verification) -> list[str]:
    """Return every folder of the store that ought to be a record."""
    names = sorted(path.name for path in store.root.iterdir() if path.name[0] != ".")
    strange = [name for name in names if len(name) != 64 or set(name) - set("0123456789abcdef")]
    found.findings += [
        f"{store.root / name}: is not a record; it does not belong here" for name in strange
    ]
    if left := list(store.running.iterdir()) if store.running.is_dir() else []:
        kinds = ", ".join(sorted({path.suffix.lstrip(".") for path in left}))
        found.notes.append(
            f"{store.running}: {len(left)} files of running or killed cells ({kinds})"
        )
    return [name for name in names if name not in strange]


def _stored(store: Store, cell: str, found: Verification) -> Record | None:
    """Return a record that holds."""
    found.records += 1
    try:
        record = store.get(cell)
        if record is None:
            raise Corrupt(
                f"{store.folder(cell)}: has no record.json; delete it and run the cell again"
            )
        store.verify(record)
    except (Corrupt, UserError) as error:
        found.findings.append(one_line(error))
        return None
    wrong = consistency.of_store(store, record)
    found.findings += [f"record {cell[:12]}: {what}" for what in wrong]
    return None if wrong else record


def of_published(
    papers: Sequence[str], rerun: int = 0, seed: int = 0, root: Path | None = None
) -> Verification:
    """Check every published line, and compute `rerun` of those that can be computed here again."""
    found, subjects = Verification(), list[Subject]()
    papers = grids.named(papers, grids.files())
    for paper in papers or list(grids.files()):
        for scale in grids.SCALES:
            known = committed_runs.read(paper, scale, root)
            found.records += len(known.lines)
            found.findings += known.problems
            planned = {item.cell.id for item in cells_of(paper, scale)} if known.cells else set()
            if unplanned := sorted(known.cells.keys() - planned):
                found.notes.append(
                    f"{known.file}: {len(unplanned)} cells are of no grid any more, such as"
                    f" {unplanned[0][:12]}; not used"
                )
            lines = [line for line in known.lines if line.cell in planned]
            subjects += [Subject(line.record, line, known) for line in lines]
            found.findings += _far_apart(lines, known)
            if stale := sum(not line.currency.current for line in lines):
                found.notes.append(
                    f"{known.file}: stale lines: {stale};"
                    f" `repfl plan --stale --scale {scale} --paper {paper}` says why"
                )
    if not found.records and not found.findings:
        place = committed_runs.folder_of(papers[0] if papers else "*", root)
        raise UserError(f"no published results under {place}; `repfl collect` writes them")
    _check(subjects, rerun, seed, found)
    return found


def _far_apart(lines: Sequence[Line], known: Measured) -> Iterator[str]:
    """Yield the lines that lie further from another one of their cell than noise explains."""
    for line in lines:
        for other in known.others(line):
            if line.key < other.key and not agreement.agree(line, other, known):
                yield (
                    f"{known.file}: cell {line.cell[:12]}: the lines of {line.contributor} and"
                    f" {other.contributor} are {100 * agreement.gap(line, other):.2f} points apart;"
                    f" the noise of a run explains {100 * agreement.allowed(line, known):.2f}"
                )


def cells_of(paper: str, scale: str) -> list[Planned]:
    """Return what a paper's grid plans at a scale; nothing if it has no such scale."""
    path = grids.files().get(paper)
    if path is None or scale not in grids.read(path).file.scales:
        return []
    return plan(Selection(papers=[paper], scale=scale))


# -- against the data that are here ----------------------------------------------------------------


def _check(subjects: Sequence[Subject], rerun: int, seed: int, found: Verification) -> None:
    """Compare with the data that are here, then compute some again."""
    for name in sorted({subject.record.cell["recipe"]["dataset"] for subject in subjects}):
        with suppress(DataError):
            found.findings += filter(None, [prepare.damaged(name, prepare.verify(name))])
    sound = []
    # by recipe, so that a partition is made once
    for subject in sorted(subjects, key=lambda subject: canonical(subject.record.cell["recipe"])):
        moved = list(data_moved(subject.record.provenance.get("data") or {}))
        wrong = moved or _partition_faults(subject.record)
        found.findings += [f"{subject.name}: {what}" for what in wrong]
        sound += [] if wrong else [subject]
    if rerun:
        _rerun(sound, rerun, seed, found)


def _partition_faults(record: Record) -> list[str]:
    if record.status != "done" or _absent(record) not in ("", GPU):
        return []
    try:
        cell = reopen(record.cell)
        return consistency.of_partition(record, cell) if cell.id == record.id else []
    except (UserError, DataError):
        return []  # told if it is to be computed again


def _absent(record: Record) -> str:
    """Return what computing a record again would need that is not here."""
    from repfl.datasets.core.cache import open_dataset

    dataset = record.cell["recipe"]["dataset"]
    try:
        open_dataset(dataset)
        like(record.provenance["device"])
    except UserError:
        return GPU
    except DataError:
        return f"the data of {dataset}"
    return ""


# -- computed again --------------------------------------------------------------------------------


def _rerun(subjects: Sequence[Subject], rerun: int, seed: int, found: Verification) -> None:
    """Compute some finished records again, chosen at random."""
    from repfl.bench.run import progress

    needs = [(each, _absent(each.record)) for each in subjects if each.record.status == "done"]
    for what, count in sorted(Counter(what for _, what in needs if what).items()):
        whose = "record needs" if count == 1 else "records need"
        found.notes.append(f"{count} {whose} {what}, not here; not computed again")
    here = sorted((subject for subject, what in needs if not what), key=lambda each: each.record.id)
    drawn = random.Random(seed).sample(here, min(rerun, len(here)))
    chosen = [(subject, cell) for subject in drawn if (cell := _cell_of(subject, found))]
    if not chosen:
        return
    told = progress.Progress()
    costs = {each.record.id: each.record.provenance["seconds"]["wall"] for each, _ in chosen}
    # what is imported meanwhile must not stay frozen: triton would report it as a leak at the end
    with settings_restored(), told.running([cell for _, cell in chosen], costs, 0, 1):
        for subject, cell in chosen:
            found.rerun += 1
            _again(subject, cell, found, told)


def _cell_of(subject: Subject, found: Verification) -> Cell | None:
    """Return a record's cell, if its method is still registered."""
    try:
        cell = reopen(subject.record.cell)
    except UserError as error:
        found.findings.append(f"{subject.name}: cannot be computed again: {one_line(error)}")
        return None
    if cell.id != subject.record.id:
        found.notes.append(
            f"{subject.name}: {cell.method} is now another version or has other options;"
            " not computed again"
        )
        return None
    return cell


def _again(subject: Subject, cell: Cell, found: Verification, told: Progress) -> None:
    """Compute a record's cell in a folder of its own, and compare everything that comes out, field
    by field.
    """
    record, origin = subject.record, subject.record.provenance
    with tempfile.TemporaryDirectory(prefix="repfl-verify-") as folder:
        how = Options(
            folder, like(origin["device"]), precision=origin["precision"], stack=origin["chunk"]
        )
        prepare_process(how)
        outcome = run_task(Task(cell), how, told.round, lambda: False)
        told.finish(outcome)
        fresh = Store(folder).get(cell.id)
        if outcome.status != "done" or fresh is None:
            found.findings.append(
                f"{subject.name}: computed again, it {outcome.status}: {outcome.reason}"
            )
            return
        here = fresh.provenance["platform"]["fingerprint"] == origin["platform"]["fingerprint"]
        wrong = consistency.differing(_outcome(record), _outcome(fresh))
        if here and subject.line is not None:
            wrong += _kept(subject.line, line_of(fresh, Store(folder)))
    _conclude(subject, fresh, wrong, here, found)


def _outcome(record: Record) -> dict[str, Any]:
    made = record.provenance
    return {"metrics": record.metrics, **{name: made.get(name) for name in REPRODUCIBLE}}


def _kept(line: Line, again: Line) -> list[str]:
    """Return which curves and counts of a published line differ from those of another run."""
    pairs: dict[str, tuple[Any, Any]] = {
        f"curve {name}": (curve, again.curves.get(name)) for name, curve in line.curves.items()
    }
    if line.counts is not None:
        pairs["counts"] = line.counts, again.counts
    return [
        name
        for name, (then, now) in pairs.items()
        if now is None or not all(map(partial(np.array_equal, equal_nan=True), then, now))
    ]


def _conclude(
    subject: Subject, fresh: Record, wrong: list[str], here: bool, found: Verification
) -> None:
    """Note what differs: a finding if the same bits must come out, or if no platform can be the
    reason.
    """
    record, then, now = subject.record, subject.record.metrics["value"], fresh.metrics["value"]
    values = f"value {then} then, {now} now"
    fields = ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else "")
    if not wrong:
        return
    if here and record.provenance.get("versions") != fresh.provenance["versions"]:
        told = f"made by other versions, and the result has changed since: {fields}"
    elif here:
        told = f"does not come out again: {fields}"
    elif exact := [field for field in wrong if field.startswith(EVERYWHERE)]:
        told = f"does not come out again on any platform: {', '.join(exact)}"
    elif (then is None) != (now is None) or (
        then is not None and abs(then - now) > subject.allowed
    ):
        told = "made on another platform, and further off than its noise"
    else:
        far = then is not None and abs(then - now) > MARGIN / 100
        found.notes.append(
            f"{subject.name}: made on another platform, where bits may differ; {values}"
            + (", which is within its noise and confirms nothing" if far else "")
        )
        return
    found.findings.append(f"{subject.name}: {told}; {values}")
