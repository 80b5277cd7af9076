"""Versions: a result is current if all its versions are today's, and no other is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from repfl.algorithms import core
from repfl.algorithms.core import ENGINE, method
from repfl.bench.store import versions
from repfl.bench.store.versions import Standing
from repfl.datasets.core import partition, registry

CELL = {
    "method": "fedavg",
    "recipe": {"dataset": "digits", "model": "tiny", "partition": {"rule": "iid"}},
}
TODAY = {"engine": ENGINE, "method": 1, "dataset": 1, "rule": 1}


def engine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(core, "ENGINE", ENGINE + 1)


def of_method(patch: pytest.MonkeyPatch) -> None:
    entry = method.methods()["fedavg"]
    patch.setitem(method._REGISTRY, "fedavg", replace(entry, version=2))


def of_dataset(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(registry._REGISTRY, "digits", replace(registry.get("digits"), version=2))


def of_rule(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(
        partition._PARTITIONERS, "iid", partition.partitioners()["iid"]._replace(version=2)
    )


def test_a_result_of_todays_versions_is_current() -> None:
    assert versions.of_cell(CELL) == TODAY
    assert versions.standing(TODAY, CELL) == Standing(True)


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (engine, f"made by engine {ENGINE} (today {ENGINE + 1})"),
        (of_method, "made by method 1 (today 2)"),
        (of_dataset, "made by dataset 1 (today 2)"),
        (of_rule, "made by rule 1 (today 2)"),
    ],
)
def test_a_raised_version_makes_results_stale_and_is_named(
    raised: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised(monkeypatch)
    assert versions.standing(TODAY, CELL) == Standing(False, words)


def test_a_version_that_a_result_lacks_is_not_taken_for_todays() -> None:
    assert versions.standing({"engine": ENGINE}, CELL).reason == (
        "made by method 0 (today 1), dataset 0 (today 1), rule 0 (today 1)"
    )


def test_a_result_of_a_plugin_that_is_not_loaded_is_stale() -> None:
    made = {**TODAY, "plugin": "a" * 64}
    assert "is not loaded" in versions.standing(made, CELL).reason


def test_a_line_of_a_clone_with_changes_is_stale() -> None:
    line = {"versions": TODAY, "commit": "0123456789abcdef", "dirty": False}
    assert versions.of_line(line, CELL).current
    assert "clone with changes" in versions.of_line({**line, "dirty": True}, CELL).reason


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"method": "gone"}, "there is no method 'gone' today"),
        ({"recipe": {"dataset": "gone"}}, "there is no data set 'gone' today"),
        (
            {"recipe": {**CELL["recipe"], "partition": {"rule": "gone"}}},  # type: ignore[dict-item]
            "there is no partition rule 'gone' today",
        ),
    ],
)
def test_what_is_gone_has_no_current_results(changed: dict[str, Any], words: str) -> None:
    assert versions.standing(TODAY, {**CELL, **changed}) == Standing(False, words)
