"""Take the records of another results folder over into this one.

A record is taken if `repfl run` would compute its cell here: there is no record, only a damaged or
a failed one. A finished record is never replaced, and the other folder is only read.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repfl.bench.errors import Corrupt, StoreError, UserError, one_line
from repfl.bench.store.digest import of_file
from repfl.bench.store.locks import claim, sweep
from repfl.bench.store.record import FINAL, Record, encode
from repfl.bench.store.store import Store, stored_result, write_synced
from repfl.datasets.core.user_paths import real_path


@dataclass
class Merged:
    """What came over, and what did not."""

    taken: int = 0
    replaced: int = 0
    """How many of those taken replace a failed or damaged record."""
    there: int = 0
    busy: int = 0
    """Cells that are being computed here."""
    findings: list[str] = field(default_factory=list)
    """Damaged records, and results that differ although everything else is equal."""
    notes: list[str] = field(default_factory=list)
    """Results that differ because something else does."""

    @property
    def summary(self) -> str:
        """Return the numbers of records in words."""
        parts = [f"{self.taken} record{'s' * (self.taken != 1)} taken"]
        parts += [f"{self.replaced} in place of failed or damaged ones"] if self.replaced else []
        parts += [f"{self.there} there already"] if self.there else []
        parts += [f"{self.busy} being computed here"] if self.busy else []
        return ", ".join(parts)


def source(folder: Path, store: Store) -> Store:
    """Return a folder's records; raise a UserError if none can be taken from there."""
    other = Store(folder)
    if not other.root.is_dir():
        raise UserError(f"{folder}: is no folder; name a results folder to take from")
    if real_path(other.root) == real_path(store.root):
        raise UserError(f"{folder}: is the results folder itself; name another to take from")
    if not other.ids():
        raise UserError(f"{folder}: has no records; name a results folder to take from")
    return other


def merge(other: Store, store: Store) -> Merged:
    """Copy the records of `other` that `store` lacks."""
    store.open()
    sweep(store)
    result = Merged()
    for cell in other.ids():
        try:
            _merge(_sound(other, cell), other, store, result)
        except StoreError:
            raise
        except (Corrupt, UserError) as error:
            result.findings.append(one_line(error))
    return result


def _merge(theirs: Record, other: Store, store: Store, result: Merged) -> None:
    """Take one record over, or count why not."""
    with claim(store, theirs.id) as acquired:
        if not acquired:
            result.busy += 1
            return
        store.recover(theirs.id)
        ours, exists = stored_result(store, theirs.id), store.folder(theirs.id).exists()
        if exists and not (theirs.status in FINAL and (ours is None or ours.status not in FINAL)):
            result.there += 1
            if ours is not None:
                _compare(ours, theirs, other, result)
            return
        _copy(theirs, other, store)
        result.taken += 1
        result.replaced += exists


def _sound(store: Store, cell: str) -> Record:
    """Return a record, all its files verified; raise `Corrupt` if it is not as it was written."""
    record = store.whole(cell)
    if record is None:
        raise Corrupt(f"{store.folder(cell)}: its record.json is gone; merge again")
    return record


def _copy(record: Record, other: Store, store: Store) -> None:
    """Copy a record with its files, and verify the copies."""
    with store.replacing(record.id) as folder:
        for name, digest in record.files.items():
            shutil.copyfile(source := other.folder(record.id) / name, folder / name)
            with (folder / name).open("rb+") as file:
                os.fsync(file.fileno())
            if of_file(folder / name) != digest:
                raise Corrupt(f"{source}: has changed while it was copied; merge again")
        write_synced(folder / "record.json", encode(record))


def _compare(ours: Record, theirs: Record, other: Store, result: Merged) -> None:
    """Report two finished records of a cell that are different results."""
    finished = ours.status in FINAL and theirs.status in FINAL
    if not finished or _outcome(ours) == _outcome(theirs):
        return
    differing = ours.origin.unlike(theirs.origin)
    values = [_value(record) for record in (ours, theirs)]
    name = f"cell {ours.id[:12]} ({ours.cell['method']}, seed {ours.cell['seed']})"
    text = f"{name}: {values[0]} here, {values[1]} in {other.root}"
    if differing:
        result.notes.append(f"{text}, with other {', '.join(differing)}; not taken")
    else:
        result.findings.append(f"{text}, though versions and platform are equal; not taken")


def _outcome(record: Record) -> tuple[Any, ...]:
    return record.status, record.metrics, record.origin.digests


def _value(record: Record) -> str:
    return record.status if record.value is None else f"{100 * record.value:.2f} %"
