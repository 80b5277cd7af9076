"""Killed at any instant: no half of a record is ever seen, and the next run ends with the bits of
one that nobody killed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from repfl.bench.run.task import Task
from repfl.bench.store.locks import sweep
from repfl.bench.store.store import Store
from tests.bench.conftest import digests, run_in, task
from tests.bench.deaths import begin, last_words

WHOLE: dict[str, Any] = {
    "model": "tiny-bn",
    "evaluation": {"tallies": ["mask"]},
    "training": {"rounds": 2},
}
"""A cell with every kind of file; of a method without a server, which also counts edges."""


def computing(root: Path, wanted: Task) -> Callable[[], str]:
    """Compute a cell with a checkpoint after every round."""
    return lambda: run_in(root, wanted, checkpoint_every=0.0).status


def leftovers(root: Path) -> list[str]:
    """Whatever lies in a results folder and is no whole record."""
    return sorted(
        path.name
        for path in root.iterdir()
        if path.name != ".running" and path.name not in Store(root).ids()
    )


def resumed(root: Path, wanted: Task) -> dict[str, dict[str, str]]:
    """The digests after a second life, which clears away what the first one left, as runners do at
    their end.
    """
    outcome = run_in(root, wanted, checkpoint_every=0.0)
    assert outcome.status in ("done", "cached"), outcome.reason
    sweep(Store(root))
    assert not list((root / ".running").iterdir())
    assert not leftovers(root)
    return digests(root)


def test_a_death_before_any_write_is_made_good(tmp_path: Path) -> None:
    wanted = task("dis-pfl", **WHOLE)
    status, moves = last_words(*begin(tmp_path / "whole", computing(tmp_path / "whole", wanted)))
    whole = digests(tmp_path / "whole")
    assert (status, len(whole)) == ("done", 1)
    assert moves > 15
    for death in range(1, moves + 1):
        root = tmp_path / str(death)
        assert last_words(*begin(root, computing(root, wanted), death)) is None
        assert not root.exists() or (not leftovers(root) and digests(root) in ({}, whole))
        assert resumed(root, wanted) == whole


def test_a_death_while_a_record_is_replaced_costs_neither_the_old_nor_the_new(
    tmp_path: Path,
) -> None:
    wanted = task(training={"rounds": 1})
    Store(tmp_path).open()
    first = run_in(tmp_path, wanted)
    whole = digests(tmp_path)
    assert first.status == "done"
    damaged = next(tmp_path.glob("*/rounds.parquet"))
    good, death = damaged.read_bytes(), 0
    words: Any = None
    while words is None:
        damaged.write_bytes(good[:-1])  # so that the cell is computed again
        death += 1
        words = last_words(*begin(tmp_path, computing(tmp_path, wanted), death))
        assert not leftovers(tmp_path)
        assert resumed(tmp_path, wanted) == whole
    assert death > 10


def test_sweeping_leaves_the_living_and_the_unfinished_alone(store: Store) -> None:
    process, pipe = begin(store.root, computing(store.root, task(training={"rounds": 2000})))
    while not list(store.running.glob("*.safetensors")):
        assert process.is_alive()
    sweep(store)
    assert process.is_alive()
    assert list(store.running.glob("*.lock"))
    process.kill()
    assert last_words(process, pipe) is None
    sweep(store)
    assert [path.suffix for path in store.running.iterdir() if path.suffix != ".partial"] == [
        ".safetensors"
    ]
