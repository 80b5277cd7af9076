"""Verification: is every record as it was written, consistent with today's data, and does it come out again?"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.cells.cell import Cell, reopen
from bench.errors import Corrupt, UserError, one_line
from bench.records.shape import misshapen
from bench.records.store import Record, Store
from bench.running.devices import like
from bench.running.task import Options, Task
from bench.running.work import prepare_process, run_task

if TYPE_CHECKING:
    from bench.running.progress import Progress


@dataclass
class Verification:
    """What was looked at and what was found."""

    records: int = 0
    rerun: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(store: Store, rerun: int = 0, seed: int = 0) -> Verification:
    """Check every record of a store, and compute `rerun` of them again."""
    found, sound = Verification(), []
    if not store.root.is_dir():
        raise UserError(f"results folder {store.root}: does not exist; name another with --results DIR")
    for cell in _folders(store, found):
        found.records += 1
        try:
            record = store.get(cell)
            if record is None:
                raise Corrupt(f"{store.folder(cell)}: has no record.json; delete it and run the cell again")
            store.verify(record)
        except (Corrupt, UserError) as error:
            found.findings.append(one_line(error))
            continue
        _check_data(record, found)
        sound.append(record)
    _debris(store, found)
    sample(sound, rerun, seed, found)
    return found


def sample(records: Sequence[Record], rerun: int, seed: int, found: Verification) -> None:
    """Compute some finished records again, chosen by lot."""
    from bench.running import progress

    if not rerun:
        return
    done = _possible([record for record in records if record.status == "done"], found)
    chosen = [(record, cell) for record in random.Random(seed).sample(done, min(rerun, len(done))) if (cell := _cell_of(record, found))]
    if not chosen:
        return
    told, costs = progress.make(), {record.id: record.provenance["seconds"]["wall"] for record, _ in chosen}
    with told.running([cell for _, cell in chosen], costs, 0, 1):
        for record, cell in chosen:
            found.rerun += 1
            again(record, cell, found, told)


def _possible(records: Sequence[Record], found: Verification) -> list[Record]:
    """Those that can be computed here at all, in the order of their ids; the others are noted by what they need."""
    needed = {record.id: _absent(record) for record in records}
    for what, count in sorted(Counter(filter(None, needed.values())).items()):
        found.notes.append(f"{count} {'record needs' if count == 1 else 'records need'} {what}, not here; not computed again")
    return sorted((record for record in records if not needed[record.id]), key=lambda record: record.id)


def _absent(record: Record) -> str:
    """What computing a record again would need that is not here."""
    from datasets.core.errors import DataError
    from datasets.core.store import open_dataset

    dataset = record.cell["recipe"]["dataset"]
    try:
        like(record.provenance["device"])
        open_dataset(dataset)
    except UserError:
        return "a GPU"
    except DataError:
        return f"the data of {dataset}"
    return ""


def _cell_of(record: Record, found: Verification) -> Cell | None:
    """A record's cell, if today's code still knows it."""
    try:
        cell = reopen(record.cell)
    except UserError as error:
        found.findings.append(f"record {record.id[:12]}: cannot be computed again: {one_line(error)}")
        return None
    if cell.id != record.id:
        found.notes.append(f"record {record.id[:12]}: {cell.method} is now another version or has other options; not computed again")
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
    """Does a record say where it comes from, and are its data those that are here? Tells whether it can be read at all."""
    if wrong := misshapen(record.status, record.metrics, record.provenance):
        found.findings.append(f"record {record.id[:12]}: {wrong}")
    _check_data(record, found)
    return not wrong


def _check_data(record: Record, found: Verification) -> None:
    """The data here, if any, must be the data that the record was made with."""
    from datasets.core.errors import DataError
    from datasets.core.store import open_dataset

    for name, mark in record.provenance.get("data", {}).items():
        dataset, _, split = name.partition("/")
        try:
            here = open_dataset(dataset).fingerprints.get(split)
        except DataError:
            continue
        if here != mark:
            found.findings.append(f"record {record.id[:12]}: {name} had fingerprint {mark[:12]}, and here has {str(here)[:12]}")


def _debris(store: Store, found: Verification) -> None:
    """What killed runners left: harmless, and gone as soon as their cells are run."""
    if store.running.is_dir():
        left = sorted(path.suffix.lstrip(".") for path in store.running.iterdir())
        if left:
            found.notes.append(f"{store.running}: {len(left)} files of running or killed cells ({', '.join(sorted(set(left)))})")


def again(record: Record, cell: Cell, found: Verification, told: Progress) -> None:
    """Compute a record's cell in a folder of its own and compare digests."""
    from bench.records.provenance import platform_of, sources

    origin = record.provenance
    device = like(origin["device"])
    with tempfile.TemporaryDirectory(prefix="repfl-verify-") as folder:
        options = Options(folder, device, origin["precision"], origin["chunk"], origin.get("lanes", 0), origin.get("conv", "auto"))
        prepare_process(options)
        outcome = run_task(Task(cell), options, told.round, lambda: False)
        told.finish(outcome)
        again = Store(folder).get(cell.id)
        if outcome.status != "done" or again is None:
            found.findings.append(f"record {record.id[:12]}: computed again, it {outcome.status}: {outcome.reason}")
            return
    if again.provenance["digests"] == origin["digests"]:
        return
    here = platform_of(options.device, options.precision)["fingerprint"]
    difference = f"value {record.metrics['value']} then, {again.metrics['value']} now"
    if here != origin["platform"]["fingerprint"]:
        found.notes.append(f"record {record.id[:12]}: made on another platform, where bits may differ; {difference}")
    elif origin["sources"] != sources(cell.method):
        found.findings.append(f"record {record.id[:12]}: the code has changed since, and so has the result; {difference}")
    else:
        found.findings.append(f"record {record.id[:12]}: does not come out again; {difference}")
