"""`repfl verify`: check that every stored record, or every committed run, is as it was written,
and that some of them are reproduced.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repfl.bench.errors import Corrupt, UserError, one_line, with_class
from repfl.bench.evidence.committed import committed_runs, noise
from repfl.bench.evidence.committed.committed_run import Line, line_of
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid import grid as grids
from repfl.bench.grid.cell import Cell, from_json
from repfl.bench.grid.dotted_names import dotted
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.run.attempt import run_task
from repfl.bench.run.machine import prepare_process, same_kind, settings_restored
from repfl.bench.run.task import Options, Task
from repfl.bench.store.provenance import data_moved
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.paper_tables.core.statistics.intervals import half_width
from repfl.paper_tables.core.statistics.verdict import MARGIN

if TYPE_CHECKING:
    from repfl.bench.run.progress import Progress

REPRODUCIBLE = ("partition", "samples", "data", "digests")
"""Provenance that another run reproduces."""
SAME_EVERYWHERE = ("metrics.floor", "metrics.parameters", "partition", "samples", "data")
"""What every platform reproduces, to the bit."""
GPU = "a GPU"


@dataclass
class Verification:
    """What was checked, and the findings."""

    records: int = 0
    rerun: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """A record that can be computed again."""

    record: Record
    line: Line | None = None
    """The committed run that it is read from."""
    committed: CommittedRuns | None = None
    """All committed runs of that file."""

    @property
    def name(self) -> str:
        return f"record {self.record.id[:12]}"

    @property
    def tolerance(self) -> float:
        """Return how far another platform may move the value: half the width of the 95 % interval
        for the difference of two runs; any distance if too few cells have several seeds.
        """
        if self.line is None or self.committed is None:
            return inf
        expected = noise.of_line(self.line, self.committed)
        return float(half_width(expected.variance, expected.df, 2.0)) / 100 if expected else inf


def of_store(store: Store, rerun: int = 0, seed: int = 0) -> Verification:
    """Check every record of a store, and recompute `rerun` of them."""
    result = Verification()
    if not store.root.is_dir():
        raise UserError(
            f"results folder {store.root}: does not exist; name another with --results DIR, or"
            " check the committed runs with --measured"
        )
    sound = [
        Subject(record)
        for cell in _folders(store, result)
        if (record := _sound_record(store, cell, result))
    ]
    _check(sound, rerun, seed, result)
    return result


def _folders(store: Store, result: Verification) -> list[str]:
    """Return every folder of the store that should be a record; note all else."""
    names = sorted(path.name for path in store.root.iterdir() if path.name[0] != ".")
    unexpected = [name for name in names if len(name) != 64 or set(name) - set("0123456789abcdef")]
    result.findings += [
        f"{store.root / name}: is not a record; it does not belong here" for name in unexpected
    ]
    if leftovers := list(store.running.iterdir()) if store.running.is_dir() else []:
        kinds = ", ".join(sorted({path.suffix.lstrip(".") for path in leftovers}))
        result.notes.append(
            f"{store.running}: {len(leftovers)} files of running or killed cells ({kinds})"
        )
    return [name for name in names if name not in unexpected]


def _sound_record(store: Store, cell: str, result: Verification) -> Record | None:
    """Return a record if it is as it was written and can be read; else note why not."""
    result.records += 1
    with _one_finding(f"record {cell[:12]}", result):
        record = store.whole(cell)
        if record is None:
            raise Corrupt(
                f"{store.folder(cell)}: has no record.json; delete it and run the cell again"
            )
        for name in ("rounds.parquet", "clients.parquet"):
            store.frame(record, name)
        store.arrays(record)
        if strange := store.strange_files(record):
            result.findings.append(
                f"{store.folder(cell)}: holds {', '.join(strange)}, which no record speaks of;"
                " delete it"
            )
        return record
    return None


@contextmanager
def _one_finding(name: str, result: Verification) -> Iterator[None]:
    """Context manager: whatever is raised becomes one finding, and the other records are still
    checked.
    """
    try:
        yield
    except (Corrupt, UserError) as error:
        result.findings.append(one_line(error))
    except Exception as error:  # somebody may have written anything, and a valid checksum of it
        result.findings.append(f"{name}: cannot be checked: {with_class(error)}")


def of_committed(
    papers: Sequence[str], rerun: int = 0, seed: int = 0, root: Path | None = None
) -> Verification:
    """Check every committed run, and recompute `rerun` of those that can be computed here."""
    result, subjects = Verification(), list[Subject]()
    papers = grids.named(papers, grids.files())
    for paper in papers or list(grids.files()):
        for scale in grids.SCALES:
            committed = committed_runs.read(paper, scale, root)
            result.records += len(committed.lines)
            result.findings += committed.problems
            planned = (
                {item.cell.id for item in cells_of(paper, scale)} if committed.cells else set()
            )
            if unplanned := sorted(committed.cells.keys() - planned):
                result.notes.append(
                    f"{committed.file}: {len(unplanned)} cells are of no grid any more, such as"
                    f" {unplanned[0][:12]}; not used"
                )
            lines = [line for line in committed.lines if line.cell in planned]
            subjects += [Subject(line.record, line, committed) for line in lines]
            if stale := sum(not line.currency.current for line in lines):
                result.notes.append(
                    f"{committed.file}: stale lines: {stale};"
                    f" `repfl plan --stale --scale {scale} --paper {paper}` says why"
                )
    if not result.records and not result.findings:
        folder = committed_runs.folder_of(papers[0] if papers else "*", root)
        raise UserError(f"no committed runs under {folder}; `repfl collect` writes them")
    _check(subjects, rerun, seed, result)
    return result


def cells_of(paper: str, scale: str) -> list[Planned]:
    """Return the cells that a paper's grid plans at a scale; none if it has no such scale."""
    path = grids.files().get(paper)
    if path is None or scale not in grids.read(path).file.scales:
        return []
    return plan(Selection(papers=[paper], scale=scale))


# -- against the data that are here ----------------------------------------------------------------


def _check(subjects: Sequence[Subject], rerun: int, seed: int, result: Verification) -> None:
    """Compare subjects with the data that are here, then recompute some."""
    for name in sorted({subject.record.recipe.dataset for subject in subjects}):
        with suppress(DataError):
            result.findings += filter(None, [prepare.damaged(name, prepare.verify(name))])
    sound = []
    for subject in subjects:
        with _one_finding(subject.name, result):
            moved = list(data_moved(subject.record.origin.data or {}))
            result.findings += [f"{subject.name}: {what}" for what in moved]
            sound += [] if moved else [subject]
    if rerun:
        _rerun(sound, rerun, seed, result)


def _missing(record: Record) -> str:
    """Return what recomputing a record needs and this machine lacks."""
    from repfl.datasets.core.cache import open_dataset

    dataset = record.recipe.dataset
    try:
        open_dataset(dataset)
        same_kind(record.origin.device)
    except UserError:
        return GPU
    except DataError:
        return f"the data of {dataset}"
    return ""


# -- computed again --------------------------------------------------------------------------------


def _rerun(subjects: Sequence[Subject], rerun: int, seed: int, result: Verification) -> None:
    """Recompute some finished records, chosen at random."""
    from repfl.bench.run import progress

    needs = [(each, _missing(each.record)) for each in subjects if each.record.status == "done"]
    for lack, count in sorted(Counter(lack for _, lack in needs if lack).items()):
        phrase = "record needs" if count == 1 else "records need"
        result.notes.append(f"{count} {phrase} {lack}, not here; not computed again")
    runnable = sorted((each for each, lack in needs if not lack), key=lambda each: each.record.id)
    drawn = random.Random(seed).sample(runnable, min(rerun, len(runnable)))
    chosen = [(subject, cell) for subject in drawn if (cell := _reopened(subject, result))]
    if not chosen:
        return
    display = progress.Progress()
    seconds = {each.record.id: each.record.origin.seconds for each, _ in chosen}
    costs = {cell: spent.wall for cell, spent in seconds.items() if spent is not None}
    # what is imported meanwhile must not stay frozen: triton would report it as a leak at the end
    with settings_restored(), display.running([cell for _, cell in chosen], costs, 0, 1):
        for subject, cell in chosen:
            result.rerun += 1
            _recompute(subject, cell, result, display)


def _reopened(subject: Subject, result: Verification) -> Cell | None:
    """Return a record's cell, if its method is still registered."""
    try:
        cell = from_json(subject.record.cell)
    except UserError as error:
        result.findings.append(f"{subject.name}: cannot be computed again: {one_line(error)}")
        return None
    if cell.id != subject.record.id:
        result.notes.append(
            f"{subject.name}: {cell.method} is now another version or has other options;"
            " not computed again"
        )
        return None
    return cell


def _recompute(subject: Subject, cell: Cell, result: Verification, display: Progress) -> None:
    """Recompute a record's cell in a temporary folder, and compare the outcomes field by field."""
    record, origin = subject.record, subject.record.origin
    with tempfile.TemporaryDirectory(prefix="repfl-verify-") as folder:
        options = Options(
            folder, same_kind(origin.device), precision=origin.precision, stack=origin.chunk
        )
        prepare_process(options)
        outcome = run_task(Task(cell), options, display.round, lambda: False)
        display.finish(outcome)
        fresh = Store(folder).get(cell.id)
        if outcome.status != "done" or fresh is None:
            result.findings.append(
                f"{subject.name}: computed again, it {outcome.status}: {outcome.reason}"
            )
            return
        same_platform = fresh.origin.platform.fingerprint == origin.platform.fingerprint
        wrong = _differing(_outcome(record), _outcome(fresh))
        if same_platform and subject.line is not None:
            wrong += _differing_series(subject.line, line_of(fresh, Store(folder)))
    _note_differences(subject, fresh, wrong, same_platform, result)


def _outcome(record: Record) -> dict[str, Any]:
    origin = record.origin.plain
    return {"metrics": record.json["metrics"], **{name: origin.get(name) for name in REPRODUCIBLE}}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the dotted names at which two nested tables differ."""
    then, now = dotted(one), dotted(other)
    return [name for name in then | now if then.get(name) != now.get(name)]


def _differing_series(line: Line, repeat: Line) -> list[str]:
    """Return which curves and counts of a committed run differ from those of another run."""
    pairs: dict[str, tuple[Any, Any]] = {
        f"curve {name}": (curve, repeat.curves.get(name)) for name, curve in line.curves.items()
    }
    if line.counts is not None:
        pairs["counts"] = line.counts, repeat.counts
    return [
        name
        for name, (then, now) in pairs.items()
        if now is None or not all(map(partial(np.array_equal, equal_nan=True), then, now))
    ]


def _note_differences(
    subject: Subject, fresh: Record, wrong: list[str], same_platform: bool, result: Verification
) -> None:
    """Note what differs. It is a finding if the same bits are expected, or if the platform cannot
    be the reason.
    """
    record, then, now = subject.record, subject.record.value, fresh.value
    gap = 0.0 if then is None or now is None else abs(then - now)
    values = f"value {then} then, {now} now"
    fields = ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else "")
    if not wrong:
        return
    if same_platform and record.origin.versions != fresh.origin.versions:
        message = f"made by other versions, and the result has changed since: {fields}"
    elif same_platform:
        message = f"does not come out again: {fields}"
    elif exact := [field for field in wrong if field.startswith(SAME_EVERYWHERE)]:
        message = f"does not come out again on any platform: {', '.join(exact)}"
    elif (then is None) != (now is None) or gap > subject.tolerance:
        message = "made on another platform, and further off than its noise"
    else:
        result.notes.append(
            f"{subject.name}: made on another platform, where bits may differ; {values}"
            + (", which is within its noise and confirms nothing" if gap > MARGIN / 100 else "")
        )
        return
    result.findings.append(f"{subject.name}: {message}; {values}")
