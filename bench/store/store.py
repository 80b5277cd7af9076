"""The store: one folder per record, written whole or not at all, read with every checksum looked
at.

    results/<id>/record.json, rounds.parquet, clients.parquet, arrays.npz
    results/.running/<id>.lock, <id>.safetensors        while a cell is being computed; nothing of
                                                        it stays

A record is assembled in `.running/<id>.new` and appears under its name by one rename, so nobody
ever sees half of it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import Corrupt, StoreError, UserError
from repfl.bench.grid.cell import canonical
from repfl.bench.store.digest import of_file
from repfl.bench.store.shape import misshapen
from repfl.datasets.core.paths import expanded

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from torch import Tensor

SCHEMA = 1
STATUSES = ("done", "failed", "diverged", "skipped")
FINAL = ("done", "diverged", "skipped")
"""Statuses that computing again would not change; a failed cell is tried again."""
MODELS = "models.safetensors"
FILES = ("rounds.parquet", "clients.parquet", "arrays.npz", MODELS)
ID_LENGTH = 64
KINDS = {
    "schema": int,
    "id": str,
    "cell": dict,
    "status": str,
    "reason": str,
    "metrics": dict,
    "provenance": dict,
    "files": dict,
}
"""The fields of a record, as JSON has them."""
AGAIN = "`repfl run` computes the cell again and replaces it"


@dataclass(frozen=True)
class Record:
    """The result of one cell."""

    id: str
    cell: Mapping[str, Any]
    status: str
    reason: str = ""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in KINDS}


def encode(record: Record) -> bytes:
    """The one way to write a record; it ends with the checksum of everything before it."""
    values = record.json
    values["checksum"] = checksum(values)
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def checksum(values: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its checksum."""
    return sha256(
        json.dumps({k: v for k, v in values.items() if k != "checksum"}, sort_keys=True).encode()
    ).hexdigest()


def decode(data: bytes, path: Path) -> Record:
    """A record from its bytes; a single changed bit is refused."""
    try:
        values = json.loads(data)
        stored, schema = values.pop("checksum"), values["schema"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt(f"{path}: not a whole record; {AGAIN}") from None
    if stored != checksum(values):
        raise Corrupt(f"{path}: its checksum does not match; {AGAIN}")
    record = Record(**_migrated(values, schema, path))
    if schema == SCHEMA and encode(record) != data:
        raise Corrupt(f"{path}: not as it was written; {AGAIN}")
    if record.id != path.parent.name or record.id != _id_of(record.cell):
        raise Corrupt(f"{path}: belongs to another cell than its folder says; delete {path.parent}")
    if record.status not in STATUSES or not set(record.files) <= set(FILES):
        raise Corrupt(f"{path}: its status or its list of files is none that repfl writes; {AGAIN}")
    return record


def _id_of(cell: Mapping[str, Any]) -> str:
    """The id that a cell's JSON ought to have; none if it is no cell."""
    try:
        return sha256(canonical(cell).encode()).hexdigest()
    except (TypeError, ValueError):
        return ""


def _migrated(values: dict[str, Any], schema: Any, path: Path) -> dict[str, Any]:
    """Fields of the current schema; every older schema gets its step here."""
    if schema != SCHEMA:
        raise UserError(
            f"{path}: record of schema {schema!r}, this repfl reads up to {SCHEMA}; update repfl,"
            " or use another results folder"
        )
    if set(values) != set(KINDS):
        raise Corrupt(
            f"{path}: fields {sorted(set(values) ^ set(KINDS))} are missing or unexpected; {AGAIN}"
        )
    wrong = [name for name, kind in KINDS.items() if not isinstance(values[name], kind)]
    if wrong:
        raise Corrupt(f"{path}: field {wrong[0]!r} is not of its type; {AGAIN}")
    return values


class Store:
    """A results folder."""

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = expanded(root or os.environ.get("REPFL_RESULTS") or "results")
        self.running = self.root / ".running"

    def folder(self, cell: str) -> Path:
        return self.root / cell

    def ids(self) -> list[str]:
        """Ids of all stored records, sorted."""
        try:
            return sorted(
                p.name
                for p in self.root.iterdir()
                if len(p.name) == ID_LENGTH and (p / "record.json").exists()
            )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"results folder {self.root}: {error.strerror}") from None

    # -- reading -----------------------------------------------------------------------------------

    def get(self, cell: str) -> Record | None:
        """A record, its own checksum checked; none if there is none. The sibling files are checked
        when they are read.
        """
        path = self.folder(cell) / "record.json"
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        return decode(data, path)

    def checked(self, record: Record, name: str) -> Path | None:
        """Path of a record's sibling file, its bytes checked; none if the record has no such
        file.
        """
        if name not in record.files:
            return None
        path = self.folder(record.id) / name
        try:
            found = of_file(path)
        except OSError as error:
            raise Corrupt(f"{path}: {error.strerror or 'unreadable'}; {AGAIN}") from None
        if found != record.files[name]:
            raise Corrupt(f"{path}: its bytes are not those that were written; {AGAIN}")
        return path

    def frame(self, record: Record, name: str) -> pd.DataFrame | None:
        """A record's parquet file as a data frame."""
        from pyarrow.parquet import ParquetFile  # at half of what pandas takes for small files

        path = self.checked(record, name)
        return None if path is None else ParquetFile(path).read(use_threads=False).to_pandas()

    def arrays(self, record: Record) -> dict[str, np.ndarray]:
        """A record's diagnostics."""
        import numpy as np

        path = self.checked(record, "arrays.npz")
        if path is None:
            return {}
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def models(self, record: Record) -> dict[str, Tensor]:
        """Return the clients' models: `client/NAME` [N, ...], or `all/NAME` if they are equal."""
        from safetensors.torch import load_file

        path = self.checked(record, MODELS)
        if path is None:
            raise UserError(
                f"{self.folder(record.id)}: has no models; run the cell with --keep-models last, in"
                " Python keep_models='last'"
            )
        return load_file(path)

    def verify(self, record: Record) -> None:
        """Check what readers rely on, every sibling file, and that there is nothing else."""
        if wrong := misshapen(record.status, record.metrics, record.provenance):
            raise Corrupt(f"{self.folder(record.id) / 'record.json'}: {wrong}; {AGAIN}")
        for name in record.files:
            self.checked(record, name)
        extra = (
            {p.name for p in self.folder(record.id).iterdir()} - set(record.files) - {"record.json"}
        )
        if extra:
            raise Corrupt(
                f"{self.folder(record.id)}: holds {', '.join(sorted(extra))}, which no record"
                " speaks of; delete it"
            )

    # -- writing -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the folder and see that it can be written, before anything is computed."""
        probe = self.running / f"probe-{os.getpid()}"
        with writing(self.root):
            self.running.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"\0")
            probe.unlink(missing_ok=True)

    def put(self, record: Record, siblings: Mapping[str, bytes]) -> Record:
        """Store a record with its sibling files; the caller holds the cell's lock."""
        fresh, old = self.running / f"{record.id}.new", self.running / f"{record.id}.old"
        whole = Record(
            **{
                **record.json,
                "files": {name: sha256(data).hexdigest() for name, data in siblings.items()},
            }
        )
        with writing(self.root):
            self.recover(record.id)
            try:
                fresh.mkdir(parents=True)
                for name, data in {**siblings, "record.json": encode(whole)}.items():
                    write_synced(fresh / name, data)
                sync_folder(fresh)
                if self.folder(record.id).exists():
                    self.folder(record.id).rename(old)
                fresh.rename(self.folder(record.id))
                sync_folder(self.root)
            finally:
                self.recover(record.id)  # also where only the first of the renames was made
        return whole

    def recover(self, cell: str) -> None:
        """Clear what a writer of this cell left; a record it had moved aside comes back unless
        there is a new one. The caller holds the cell's lock.
        """
        old, fresh = self.running / f"{cell}.old", self.running / f"{cell}.new"
        with writing(self.root):
            if old.exists() and not self.folder(cell).exists():
                old.rename(self.folder(cell))
            for leftover in (fresh, old):
                shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def writing(
    root: Path, what: str = "results folder", other: str = ", or choose another with --results DIR"
) -> Iterator[None]:
    """Turn the many faces of a full or read-only disk into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"{what} {root}: cannot be written ({reason}); free space{other}"
        ) from None


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole: who reads it finds the old bytes or the new ones."""
    partial = path.with_suffix(".partial")
    write_synced(partial, data)
    partial.replace(path)


def sync_folder(path: Path) -> None:
    """Wait until the disk has a folder's entries; file systems that cannot are trusted."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def stored_result(store: Store, cell: str) -> Record | None:
    """A usable record of a cell: a damaged one counts as none, and is replaced."""
    try:
        record = store.get(cell)
        if record is not None:
            store.verify(record)
        return record
    except Corrupt:
        return None
