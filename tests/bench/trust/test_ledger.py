"""The ledger: a value stands under today's code where equal steps lead there, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import Corrupt
from repfl.bench.records import sources as code
from repfl.bench.trust import ledger
from repfl.bench.trust.ledger import Standing, Step
from tests.bench.conftest import copy_code, environment

TODAY = {"engine": "c" * 64, "method": "d" * 64}


def key(engine: str, method: str = "d") -> tuple[str, str]:
    return engine * ledger.DIGITS, method * ledger.DIGITS


def step(old: str, new: str, method: str = "fedavg", **more: Any) -> Step:
    cells = {"platform": "here", "gate": 3, "smoke": 2, "views": 1}
    return Step(method, *key(old), *key(new), f"{old}-commit", f"{new}-commit", **cells | more)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty ledger; today's code is engine c."""
    path = tmp_path / "engines.csv"
    path.write_text(ledger.FILE.read_text().splitlines()[0] + "\n")
    monkeypatch.setattr(ledger, "FILE", path)
    monkeypatch.setattr(code, "sources", lambda method, root=None: TODAY)
    ledger.append([])
    yield path
    monkeypatch.undo()
    ledger.append([])


def made_by(engine: str, method: str = "fedavg") -> Standing:
    return ledger.standing({"engine": engine * 64, "method": "d" * 64}, cell(method))


def cell(method: str = "fedavg", participation: float = 1, **hp: Any) -> dict[str, Any]:
    return {
        "method": method,
        "hp": hp,
        "recipe": {"participation": participation, "training": {"clip": 0}},
    }


def test_a_value_of_todays_code_is_current_without_any_row(rows: Path) -> None:
    assert made_by("c") == Standing(True)


def test_equal_steps_form_chains_in_both_directions(rows: Path) -> None:
    ledger.append([step("a", "b"), step("c", "b")])
    assert made_by("a") == made_by("b") == Standing(True)
    assert not made_by("e").current


def test_what_nobody_compared_is_stale_and_says_so(rows: Path) -> None:
    ledger.append([step("a", "c")])
    found = made_by("a", "fedprox")
    assert not found.current
    assert "nobody has compared" in found.reason
    assert "aaaaaaaa" in found.reason


def test_what_moved_is_stale_with_what_moved(rows: Path) -> None:
    ledger.append([step("a", "b"), step("b", "c", moved="fedavg[x=1]: round 2, linear 1 -> 2")])
    assert made_by("a") == Standing(
        False, "moved between b-commit and c-commit: fedavg[x=1]: round 2, linear 1 -> 2"
    )


def test_an_equal_row_does_not_carry_what_another_row_saw_move(rows: Path) -> None:
    ledger.append([step("a", "c"), step("a", "c", platform="there", moved="fedavg: value 1 -> 2")])
    assert not made_by("a").current


def test_what_tells_moved_cells_from_equal_ones_tells_which_values_stand(rows: Path) -> None:
    equal = [
        cell(cutoff="none", tau=0.1),
        cell(cutoff="none", tau=0.5),
        cell(cutoff="half", tau=0.5),
    ]
    but = ledger.apart([cell(cutoff="empty", tau=0.5)], equal)
    assert but == "cutoff=empty"
    ledger.append([step("a", "c", moved="fedavg[cutoff=empty]: bytes 1 -> 2", but=but)])
    made = {"engine": "a" * 64, "method": "d" * 64}
    assert ledger.standing(made, cell(cutoff="half", tau=0.9)).current
    assert not ledger.standing(made, cell(cutoff="empty", tau=0.1)).current


def test_what_resembles_neither_moved_nor_equal_cells_does_not_stand(rows: Path) -> None:
    but = ledger.apart([cell(participation=0.5)], [cell(), cell(tau=1)])
    assert but == "recipe.participation=0.5 !recipe.participation=1"
    ledger.append([step("a", "c", moved="fedavg: value 1 -> 2", but=but)])
    made = {"engine": "a" * 64, "method": "d" * 64}
    assert ledger.standing(made, cell(tau=2)).current
    assert not ledger.standing(made, cell(participation=0.1)).current


@pytest.mark.parametrize("equal", [[], [cell(tau=1), cell(tau=2)]])
def test_where_nothing_tells_them_apart_no_value_stands(
    rows: Path, equal: list[dict[str, Any]]
) -> None:
    but = ledger.apart([cell(tau=1), cell(tau=2)], equal)
    ledger.append([step("a", "c", moved="fedavg: value 1 -> 2", but=but)])
    assert (but, made_by("a").current) == ("", False)


def test_a_clone_with_changes_makes_no_current_line(rows: Path) -> None:
    line = {"sources": TODAY, "commit": "0123456789abcdef", "dirty": False}
    assert ledger.of_line(line, cell()).current
    assert "clone with changes" in ledger.of_line({**line, "dirty": True}, cell()).reason
    assert not ledger.of_line({}, cell()).current


def test_rows_are_added_once_and_none_is_lost(rows: Path) -> None:
    assert ledger.append([step("a", "b"), step("a", "b")]) == 1
    assert ledger.append([step("a", "b"), step("b", "c")]) == 1
    assert ledger.read_ledger() == [step("a", "b"), step("b", "c")]


@pytest.mark.parametrize(
    "edit",
    [("aaaa", "zzzz"), (",3,2,1,", ",0,0,1,"), (",3,2,1,", ",many,2,1,"), ("old_engine", "old")],
)
def test_a_row_that_cannot_be_meant_is_refused(rows: Path, edit: tuple[str, str]) -> None:
    ledger.append([step("a", "b")])
    assert edit[0] in rows.read_text()
    rows.write_text(rows.read_text().replace(edit[0], edit[1], 1))
    with pytest.raises(Corrupt, match=r"engines\.csv:[12]:"):
        ledger.read_ledger()


@pytest.mark.parametrize("file", ["algorithms/core/run.py", "algorithms/fedavg.py"])
def test_a_planted_change_makes_todays_values_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    made, read = code.sources("fedavg"), code.sources
    copy_code(tmp_path, "algorithms", "datasets", "bench/running")
    monkeypatch.setattr(code, "sources", lambda method: read(method, tmp_path))
    assert ledger.standing(made, cell()).current
    (tmp_path / file).write_text((tmp_path / file).read_text() + "\nPLANTED = 1\n")
    for remembered in (read, code.engine):
        remembered.cache_clear()
    assert not ledger.standing(made, cell()).current


def test_a_method_that_is_gone_has_no_current_values() -> None:
    assert ledger.standing(TODAY, cell("no-such-method")) == Standing(
        False, "there is no method 'no-such-method' today"
    )


def test_asking_loads_no_heavy_library() -> None:
    asked = f"ledger.standing({{}}, {cell()})"
    script = (
        f"import sys; from repfl.bench.trust import ledger; {asked}; assert 'torch' not in"
        " sys.modules"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], env=environment(), check=False).returncode
        == 0
    )


def test_the_committed_ledger_names_commits_of_this_history() -> None:
    steps = ledger.read_ledger()
    named = {commit for each in steps for commit in (each.old_commit, each.new_commit)}
    git = ["git", "-C", str(code.ROOT), "cat-file", "-e"]
    if (
        subprocess.run(
            [*git[:3], "rev-parse", "--is-shallow-repository"], capture_output=True, check=False
        ).stdout
        != b"false\n"
    ):
        pytest.skip("not a clone with its history")
    assert [
        commit
        for commit in sorted(named)
        if subprocess.run([*git, commit], capture_output=True, check=False).returncode
    ] == []
