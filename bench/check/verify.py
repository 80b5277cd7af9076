"""Verification: is every record as it was written, consistent with today's data, and does it come
out again?
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from repfl.bench.check import arithmetic
from repfl.bench.check.arithmetic import differing
from repfl.bench.errors import Corrupt, UserError, one_line
from repfl.bench.grid.cell import Cell, canonical, reopen
from repfl.bench.run.devices import like
from repfl.bench.run.task import Options, Task
from repfl.bench.run.work import prepare_process, run_task
from repfl.bench.store.provenance import data_moved
from repfl.bench.store.shape import misshapen
from repfl.bench.store.store import Record, Store
from repfl.datasets.core import prepare
from repfl.datasets.core.errors import DataError

if TYPE_CHECKING:
    from repfl.bench.run.progress import Progress


OUTCOME = ("partition", "samples", "data", "digests")
"""Provenance that comes out again."""
EVERYWHERE = ("metrics.floor", "metrics.parameters", "partition", "samples", "data")
"""What has to come out on every platform, to the bit."""


GPU = "a GPU"
POINT = 0.01
"""How close another platform's value must be to confirm one."""


@dataclass
class Verification:
    """What was looked at and what was found."""

    records: int = 0
    rerun: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    equal: list[Subject] = field(default_factory=list)
    """What came out again, to the bit."""


@dataclass(frozen=True)
class Subject:
    """A record that can be computed again, and what else was kept of it."""

    record: Record
    kept: Callable[[Store, Record], list[str]] = lambda store, fresh: []
    """Told where the fresh record lies: what else was kept and differs."""
    noise: float = inf
    """How far another platform may move the value."""


def verify(store: Store, rerun: int = 0, seed: int = 0) -> Verification:
    """Check every record of a store, and compute `rerun` of them again."""
    found, sound = Verification(), list[Subject]()
    if not store.root.is_dir():
        raise UserError(
            f"results folder {store.root}: does not exist; name another with --results DIR"
        )
    for cell in _folders(store, found):
        found.records, before = found.records + 1, len(found.findings)
        try:
            record = store.get(cell)
            if record is None:
                raise Corrupt(
                    f"{store.folder(cell)}: has no record.json; delete it and run the cell again"
                )
            store.verify(record)
        except (Corrupt, UserError) as error:
            found.findings.append(one_line(error))
            continue
        _check_data(record, found)
        found.findings += [
            f"record {record.id[:12]}: {wrong}" for wrong in arithmetic.of_store(store, record)
        ]
        if len(found.findings) == before:
            sound.append(Subject(record))
    _debris(store, found)
    sample(partitions(sound, found), rerun, seed, found)
    return found


def partitions(subjects: Sequence[Subject], found: Verification) -> list[Subject]:
    """Hold what follows from partitions against the data that are here, once these are intact;
    gives back what holds or cannot be told.
    """
    held = []
    found.findings += _damage({subject.record.cell["recipe"]["dataset"] for subject in subjects})
    for subject in sorted(subjects, key=lambda subject: canonical(subject.record.cell["recipe"])):
        wrong = _partition_faults(subject.record)
        found.findings += [f"record {subject.record.id[:12]}: {what}" for what in wrong]
        held += [] if wrong else [subject]
    return held


def _damage(datasets: set[str]) -> list[str]:
    """Which of some data sets, as far as they are here, are no longer what was prepared."""
    told = []
    for name in sorted(datasets):
        with suppress(DataError):
            told.append(prepare.damaged(name, prepare.verify(name)))
    return [line for line in told if line]


def _partition_faults(record: Record) -> list[str]:
    if record.status != "done" or _absent(record) not in ("", GPU):
        return []
    try:
        cell = reopen(record.cell)
        return arithmetic.of_partition(record, cell) if cell.id == record.id else []
    except (UserError, DataError):
        return []  # told where it is to be computed again


def sample(subjects: Sequence[Subject], rerun: int, seed: int, found: Verification) -> None:
    """Compute some finished records again, chosen by lot."""
    from repfl.bench.run import progress

    if not rerun:
        return
    done = _possible([subject for subject in subjects if subject.record.status == "done"], found)
    drawn = random.Random(seed).sample(done, min(rerun, len(done)))
    chosen = [(subject, cell) for subject in drawn if (cell := _cell_of(subject.record, found))]
    if not chosen:
        return
    told = progress.make()
    costs = {
        subject.record.id: subject.record.provenance["seconds"]["wall"] for subject, _ in chosen
    }
    with told.running([cell for _, cell in chosen], costs, 0, 1):
        for subject, cell in chosen:
            found.rerun += 1
            again(subject, cell, found, told)


def _possible(subjects: Sequence[Subject], found: Verification) -> list[Subject]:
    """Those that can be computed here at all, in the order of their ids; the others are noted by
    what they need.
    """
    needed = [(subject, _absent(subject.record)) for subject in subjects]
    for what, count in sorted(Counter(what for _, what in needed if what).items()):
        whose = "record needs" if count == 1 else "records need"
        found.notes.append(f"{count} {whose} {what}, not here; not computed again")
    return sorted(
        (subject for subject, what in needed if not what), key=lambda subject: subject.record.id
    )


def _absent(record: Record) -> str:
    """What computing a record again would need that is not here."""
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


def _cell_of(record: Record, found: Verification) -> Cell | None:
    """A record's cell, if its method is still registered."""
    try:
        cell = reopen(record.cell)
    except UserError as error:
        found.findings.append(
            f"record {record.id[:12]}: cannot be computed again: {one_line(error)}"
        )
        return None
    if cell.id != record.id:
        found.notes.append(
            f"record {record.id[:12]}: {cell.method} is now another version or has other options;"
            " not computed again"
        )
        return None
    return cell


def _folders(store: Store, found: Verification) -> list[str]:
    """Every folder of the store that ought to be a record."""
    names = sorted(path.name for path in store.root.iterdir() if path.name != store.running.name)
    for name in names:
        if len(name) != 64 or set(name) - set("0123456789abcdef"):
            found.findings.append(f"{store.root / name}: is not a record; it does not belong here")
    return [name for name in names if len(name) == 64 and not set(name) - set("0123456789abcdef")]


def check(record: Record, found: Verification) -> bool:
    """Does a record say where it comes from, and are its data those that are here? Tells whether it
    can be read at all.
    """
    if wrong := misshapen(record.status, record.metrics, record.provenance):
        found.findings.append(f"record {record.id[:12]}: {wrong}")
    _check_data(record, found)
    return not wrong


def _check_data(record: Record, found: Verification) -> None:
    """The data here, if any, must be the data that the record was made with."""
    for moved in data_moved(record.provenance.get("data") or {}):
        found.findings.append(f"record {record.id[:12]}: {moved}")


def _debris(store: Store, found: Verification) -> None:
    """What killed runners left: harmless, and gone as soon as their cells are run."""
    if store.running.is_dir():
        left = sorted(path.suffix.lstrip(".") for path in store.running.iterdir())
        if left:
            found.notes.append(
                f"{store.running}: {len(left)} files of running or killed cells"
                f" ({', '.join(sorted(set(left)))})"
            )


def again(subject: Subject, cell: Cell, found: Verification, told: Progress) -> None:
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
                f"record {record.id[:12]}: computed again, it {outcome.status}: {outcome.reason}"
            )
            return
        here = fresh.provenance["platform"]["fingerprint"] == origin["platform"]["fingerprint"]
        wrong = differing(_outcome(record), _outcome(fresh))
        _conclude(
            subject,
            fresh,
            [*wrong, *(subject.kept(Store(folder), fresh) if here else [])],
            here,
            found,
        )


def _outcome(record: Record) -> dict[str, Any]:
    return {"metrics": record.metrics, **{name: record.provenance.get(name) for name in OUTCOME}}


def _conclude(
    subject: Subject, fresh: Record, wrong: list[str], here: bool, found: Verification
) -> None:
    """What differs is a finding where the same bits must come out, or where no platform can be the
    reason.
    """
    record, then, now = subject.record, subject.record.metrics["value"], fresh.metrics["value"]
    name, values = f"record {record.id[:12]}", f"value {then} then, {now} now"
    fields = ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else "")
    if not wrong:
        found.equal.append(subject)
    elif here and record.provenance.get("versions") != fresh.provenance["versions"]:
        found.findings.append(
            f"{name}: made by other versions, and the result has changed since: {fields}; {values}"
        )
    elif here:
        found.findings.append(f"{name}: does not come out again: {fields}; {values}")
    elif exact := [field for field in wrong if field.startswith(EVERYWHERE)]:
        found.findings.append(
            f"{name}: does not come out again on any platform: {', '.join(exact)}; {values}"
        )
    elif (then is None) != (now is None) or (then is not None and abs(then - now) > subject.noise):
        found.findings.append(
            f"{name}: made on another platform, and further off than its noise; {values}"
        )
    else:
        far = then is not None and abs(then - now) > POINT
        found.notes.append(
            f"{name}: made on another platform, where bits may differ; {values}"
            + (", which is within its noise and confirms nothing" if far else "")
        )
