"""A cell's seconds go on where a checkpoint left them, of the processor as of the clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import isnan

import pytest

from repfl.bench.run.task import Clocks, Outcome
from repfl.bench.store import checkpoint
from repfl.bench.store.store import Store
from tests.bench.conftest import task


def test_what_was_spent_before_is_added() -> None:
    spent = Clocks(100.0, 50.0).since(Clocks.now())
    assert 100 <= spent.wall < 101
    assert 50 <= spent.processor < 51
    assert isnan(Clocks.told(3.0).since(Clocks.now()).processor)


@pytest.mark.parametrize("early", [False, True])
def test_a_resumed_cell_has_all_of_its_seconds(
    store: Store, compute: Callable[..., Outcome], early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, asked = task(), count()
    assert compute(done, stop=lambda: next(asked) == 0).status == "interrupted"
    load = checkpoint.load

    def loaded(*arguments: object) -> object:
        """A checkpoint after 1000 seconds; one of early days knows no processor time."""
        tensors = load(*arguments)  # type: ignore[arg-type]
        assert tensors is not None
        seconds = tensors["harness/seconds"]
        tensors["harness/seconds"] = seconds[0] + 1000 if early else seconds + 1000
        return tensors

    monkeypatch.setattr(checkpoint, "load", loaded)
    assert compute(done).status == "done"
    record = store.get(done.cell.id)
    assert record is not None
    spent = record.provenance["seconds"]
    assert 1000 < spent["wall"] < 1100
    assert ("processor" in spent) is not early
    assert early or 1000 < spent["processor"] < 1100
