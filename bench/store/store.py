"""The store: one folder per record, written as a whole or not at all; every checksum is verified on
reading.

results/<id>/record.json, rounds.parquet, clients.parquet, arrays.npz
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from repfl.bench.errors import Corrupt, StoreError, UserError, with_class
from repfl.bench.store.contents import lacking
from repfl.bench.store.digest import of_file
from repfl.bench.store.record import COLUMNS, MODELS, RERUN, Record, decode, encode
from repfl.datasets.core.user_paths import expanded

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from torch import Tensor


ID_LENGTH = 64
FULL = (errno.ENOSPC, errno.EDQUOT)


class Store:
    """A results folder."""

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = expanded(root or os.environ.get("REPFL_RESULTS") or "results")
        self.running = self.root / ".running"

    def folder(self, cell: str) -> Path:
        return self.root / cell

    def ids(self) -> list[str]:
        """Return the ids of all stored records, sorted."""
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

    def begun(self) -> set[str]:
        """Return the ids of cells that a runner is at, or was."""
        return {path.name.partition(".")[0] for path in self.running.glob("*.*")}

    # -- reading -----------------------------------------------------------------------------------

    def get(self, cell: str) -> Record | None:
        """Return a record, its own checksum verified; None if there is none. Sibling files are
        verified when they are read.
        """
        path = self.folder(cell) / "record.json"
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        return decode(data, path)

    def whole(self, cell: str) -> Record | None:
        """Return a record if its fields and all its files are sound; None if there is none. Raise
        `Corrupt` if `repfl run` would compute the cell again.
        """
        record = self.get(cell)
        if record is not None:
            self.verify(record)
        return record

    def checked(self, record: Record, name: str) -> Path | None:
        """Return the path of a record's sibling file, its bytes verified; None if the record has no
        such file.
        """
        if name not in record.files:
            return None
        path = self.folder(record.id) / name
        try:
            digest = of_file(path)
        except OSError as error:
            raise Corrupt(f"{path}: {error.strerror or 'unreadable'}; {RERUN}") from None
        if digest != record.files[name]:
            raise Corrupt(f"{path}: its bytes are not those that were written; {RERUN}")
        return path

    def frame(self, record: Record, name: str) -> pd.DataFrame | None:
        """Return a record's parquet file as a data frame."""
        from pyarrow import schema
        from pyarrow.parquet import ParquetFile  # at half of what pandas takes for small files

        path = self.checked(record, name)
        if path is None:
            return None
        with _decoding(path):
            table = ParquetFile(path).read(use_threads=False)
            return table.cast(schema(list(COLUMNS[name].items()))).to_pandas()

    def arrays(self, record: Record) -> dict[str, np.ndarray]:
        """Return a record's diagnostics."""
        import numpy as np

        path = self.checked(record, "arrays.npz")
        if path is None:
            return {}
        with _decoding(path), np.load(path, allow_pickle=False) as stored:
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
        with _decoding(path):
            return load_file(path)

    def verify(self, record: Record) -> None:
        """Verify that nothing is missing, and every sibling file."""
        if problem := lacking(record.status, record.metrics, record.provenance):
            raise Corrupt(f"{self.folder(record.id) / 'record.json'}: {problem}; {RERUN}")
        for name in record.files:
            self.checked(record, name)

    def strange_files(self, record: Record) -> list[str]:
        """Return the files in a record's folder that it does not name."""
        files = {path.name for path in self.folder(record.id).iterdir()}
        return sorted(files - set(record.files) - {"record.json"})

    # -- writing -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the folder and check that it is writable, before anything is computed."""
        if self.running.exists() and not self.running.is_dir():
            raise StoreError(f"{self.running}: is a file, and should be a folder; delete it")
        probe = self.running / f"probe-{os.getpid()}"
        with writing(self.root):
            self.running.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"\0")
            probe.unlink(missing_ok=True)

    def put(self, record: Record, siblings: Mapping[str, bytes]) -> Record:
        """Store a record with its sibling files; the caller holds the cell's lock."""
        files = {name: sha256(data).hexdigest() for name, data in siblings.items()}
        stored = replace(record, files=files)
        with self.replacing(record.id) as folder:
            for name, data in {**siblings, "record.json": encode(stored)}.items():
                write_synced(folder / name, data)
        return stored

    @contextmanager
    def replacing(self, cell: str) -> Iterator[Path]:
        """Context manager: what is written into this folder becomes the record of a cell, as a
        whole or not at all. The caller holds the cell's lock.
        """
        new, old = self.running / f"{cell}.new", self.running / f"{cell}.old"
        with writing(self.root):
            self.recover(cell)
            try:
                new.mkdir(parents=True)
                yield new
                sync_folder(new)
                if self.folder(cell).exists():
                    self.folder(cell).rename(old)
                new.rename(self.folder(cell))
                sync_folder(self.root)
            finally:
                self.recover(cell)  # also where only the first of the renames was made

    def recover(self, cell: str) -> None:
        """Remove what an interrupted writer of this cell left; an old record that it had moved
        aside is restored unless there is a new one. The caller holds the cell's lock.
        """
        old, new = self.running / f"{cell}.old", self.running / f"{cell}.new"
        with writing(self.root):
            if old.exists() and not self.folder(cell).exists():
                old.rename(self.folder(cell))
            for leftover in (new, old):
                shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def writing(
    root: Path, what: str = "results folder", other: str = "choose another with --results DIR"
) -> Iterator[None]:
    """Context manager: turn any error of a full or read-only disk into one line."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # of a library, not of the operating system
            raise
        reason = error.strerror or str(error)
        if error.filename and str(error.filename) != str(root):
            reason = f"{error.filename}: {reason}"
        free = "free space" if error.errno in FULL else ""
        advice = ", or ".join(filter(None, [free, other]))
        raise StoreError(
            f"{what} {root}: cannot be written ({reason}){advice and '; '}{advice}"
        ) from None


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Context manager: whatever a library raises about a file's content becomes one line."""
    try:
        yield
    except Exception as error:
        raise Corrupt(f"{path}: cannot be read: {with_class(error)}; {RERUN}") from None


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole: readers see the old bytes or the new ones."""
    partial = path.with_suffix(".partial")
    try:
        write_synced(partial, data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries are on the disk, on file systems that support it."""
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
    """Return a usable record of a cell; None if it is missing or damaged."""
    try:
        return store.whole(cell)
    except Corrupt:
        return None
