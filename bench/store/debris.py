"""What killed runners leave beside the records: locks nobody holds, halves of records, checkpoints
of cells that are finished by now.
"""

from __future__ import annotations

from contextlib import suppress

from repfl.bench.errors import StoreError
from repfl.bench.store import checkpoint
from repfl.bench.store.locks import claim
from repfl.bench.store.store import FINAL, ID_LENGTH, Store, stored_result


def sweep(store: Store) -> None:
    """Clear it away; what belongs to a living runner, and the checkpoint of a cell that is still to
    be finished, stay.
    """
    with suppress(
        OSError, StoreError
    ):  # a folder that cannot be written, or is gone by now, keeps its debris
        names = {path.name.partition(".")[0] for path in store.running.iterdir()}
        for cell in sorted(name for name in names if len(name) == ID_LENGTH):
            with claim(store, cell) as mine:
                if mine:
                    _clear(store, cell)
        for probe in store.running.glob("probe-*"):
            probe.unlink(missing_ok=True)


def _clear(store: Store, cell: str) -> None:
    """The debris of one cell, which nobody computes."""
    store.recover(cell)
    record = stored_result(store, cell)
    if record is not None and record.status in FINAL:
        checkpoint.drop(store, cell)
