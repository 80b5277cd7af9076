"""A calibration finds out how fast a machine is, and is remembered for it alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from repfl.bench.records.store import Store
from repfl.bench.running import operations, pace
from repfl.bench.running.cost import Speeds
from repfl.bench.running.operations import Load
from tests.bench.conftest import ROOT, environment, task


@pytest.fixture(autouse=True)
def _own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPFL_PACE", str(tmp_path / "there" / "pace.json"))


def loads(times: float) -> list[tuple[Load, float]]:
    """What a machine takes that is so many times as slow as the reference."""
    known = pace.reference()
    steps = [
        operations.network(*shape).step(batch).times(count) for shape, batch, count in pace.STEPS
    ]
    return [(load, pace.IN_A_ROW * times * known._of(load)) for load in steps]


@pytest.mark.parametrize("times", [0.5, 1.0, 3.0])
def test_a_machine_is_as_slow_as_its_steps(times: float) -> None:
    assert pace._factors(loads(times)) == pytest.approx(
        dict.fromkeys(operations.TERMS, times**pace.TRUST)
    )


def test_one_wild_time_moves_a_calibration_little() -> None:
    wild = loads(1.0)
    wild[2] = wild[2][0], 10 * wild[2][1]
    assert all(0.5 < factor < 1.5 for factor in pace._factors(wild).values())


def test_a_calibration_is_remembered_and_moves_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pace.remembered() == {}
    monkeypatch.setattr(pace, "_timed", lambda: loads(4.0))
    found = pace.calibrate()
    assert pace.remembered() == pytest.approx(found)
    cell = task("fedavg", training={"rounds": 500}).cell
    here, there = (Speeds(each()).seconds(cell) for each in (pace.here, pace.reference))
    assert here / there == pytest.approx(4.0**pace.TRUST, rel=0.1)
    monkeypatch.setattr(pace, "_timed", lambda: loads(1.0))
    assert pace.calibrate()["calls"] == pytest.approx(4.0 ** (pace.TRUST / 2))


def test_another_machine_and_another_pytorch_know_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "_timed", lambda: loads(2.0))
    pace.calibrate()
    monkeypatch.setattr(pace.provenance, "libraries", lambda: {"torch": "99.0"})
    assert pace.remembered() == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"KEY": {"calls": 1}}', '{"KEY": 3}'])
def test_a_damaged_file_is_no_calibration(text: str) -> None:
    pace.path().parent.mkdir()
    pace.path().write_text(text.replace("KEY", pace._key()), encoding="utf-8")
    assert pace.remembered() == {}


def test_steps_of_this_machine_can_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "STEPS", pace.STEPS[:2])
    monkeypatch.setattr(pace, "REPEATS", 2)
    timed = pace._timed()
    assert len(timed) == 4
    assert all(seconds > 0 for _, seconds in timed)
    assert all(0.05 < factor < 20 for factor in pace._factors(timed).values())


def test_planning_needs_no_pytorch_and_calibrates_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from repfl.bench.cli.main import call;"
        " call(['plan', '--scale', 'desk', '--paper', 'fedpurin', '--results', sys.argv[1]]);"
        " from repfl.bench.running import pace; print('torch' in sys.modules, pace.remembered())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, env=environment(), cwd=ROOT, check=True,
    )  # fmt: skip
    assert done.stdout.endswith("False {}\n")


def test_a_record_has_the_processor_time_of_its_cell(store: Store, compute: object) -> None:
    done = task()
    compute(done)  # type: ignore[operator]
    record = store.get(done.cell.id)
    assert record is not None
    spent = record.provenance["seconds"]
    assert spent["processor"] > 0
    assert spent["wall"] >= spent["train"] + spent["evaluate"]
