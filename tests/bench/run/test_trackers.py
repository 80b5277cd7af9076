"""Trackers see every round of a run once, and never cost a cell."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.run import trackers
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, Here, stored, task

SEEN: list[tuple[str, Any]] = []


class Noted:
    """Remembers what it is told."""

    def on_run_start(self, cell: Any, folder: Path) -> None:
        SEEN.append(("start", cell.method))

    def on_round(self, number: int, values: Mapping[str, float]) -> None:
        SEEN.append((str(number), values["post_agg/mean"]))

    def on_run_end(self, status: str) -> None:
        SEEN.append(("end", status))


class Broken(Noted):
    def on_round(self, number: int, values: Mapping[str, float]) -> None:
        raise ConnectionError("no network")


def test_a_tracker_follows_a_run_through_its_interruptions(store: Store, compute: Compute) -> None:
    SEEN.clear()
    asked, wanted = count(), task()
    name = f"{__name__}:Noted"
    assert compute(wanted, track=name, stop=lambda: next(asked) == 0).status == "interrupted"
    assert compute(wanted, track=name).status == "done"
    assert [what for what, _ in SEEN] == ["start", "1", "end", "start", "2", "3", "end"]
    assert [told for what, told in SEEN if what == "end"] == ["interrupted", "done"]
    assert dict(SEEN)["3"] == stored(store, wanted.cell.id).value
    with pytest.warns(UserWarning, match="no network"):
        assert compute(task("local"), track=f"{__name__}:Broken").status == "done"


@pytest.mark.filterwarnings("error:--track")
@pytest.mark.parametrize("name", trackers.BUILT_IN)
def test_a_built_in_tracker_takes_an_interrupted_run_up_again(
    name: str, compute: Compute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    asked, wanted = count(), task()
    assert compute(wanted, track=name, stop=lambda: next(asked) == 0).status == "interrupted"
    assert compute(wanted, track=name).status == "done"
    if name == "mlflow":
        (run,) = package.search_runs(output_format="list")
        assert run.info.status == "FINISHED"
        history = package.MlflowClient().get_metric_history(run.info.run_id, "post_agg/mean")
        assert [value.step for value in history] == [1, 2, 3]


def test_what_is_no_tracker_is_refused_at_once(
    here: Here, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    for name in ("tensorflow", "os:path", f"{__name__}:Nobody", "wandb"):
        said = here("run", "--grid", grid, "--results", tmp_path / "r", "--track", name)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert f"track {name}" in said.err.replace("'", "")
    assert not (tmp_path / "r").exists()
