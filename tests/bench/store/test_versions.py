"""Versions: a result is current if all its versions are today's, and no other is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from repfl.algorithms import core
from repfl.algorithms.core import ENGINE, method
from repfl.bench.store import versions
from repfl.bench.store.versions import Currency
from repfl.datasets.core import partition, registry

RECIPE: dict[str, Any] = {"dataset": "digits", "model": "tiny", "partition": {"rule": "iid"}}
CELL = {"method": "fedavg", "recipe": RECIPE}
TODAY = {"engine": ENGINE, "method": 1, "dataset": 1, "rule": 1}


def test_a_result_of_todays_versions_is_current() -> None:
    assert versions.of_cell(CELL) == TODAY
    assert versions.currency(TODAY, CELL) == Currency(True)


def engine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(core, "ENGINE", ENGINE + 1)


def of_method(patch: pytest.MonkeyPatch) -> None:
    newer = replace(method.methods()["fedavg"], version=2)
    patch.setitem(method._REGISTRY, "fedavg", newer)


def of_dataset(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(registry._REGISTRY, "digits", replace(registry.get("digits"), version=2))


def of_rule(patch: pytest.MonkeyPatch) -> None:
    newer = partition.partitioners()["iid"]._replace(version=2)
    patch.setitem(partition._PARTITIONERS, "iid", newer)


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
    assert versions.currency(TODAY, CELL) == Currency(False, words)


@pytest.mark.parametrize(
    ("made", "changed", "words"),
    [
        ({"engine": ENGINE}, {}, "made by method 0 (today 1), dataset 0 (today 1), rule 0 (today"),
        ({**TODAY, "plugin": "a" * 64}, {}, "is not loaded"),
        (TODAY, {"method": "gone"}, "there is no method 'gone' today"),
        (TODAY, {"recipe": {"dataset": "gone"}}, "there is no data set 'gone' today"),
        (TODAY, {"recipe": RECIPE | {"partition": {"rule": "gone"}}}, "no partition rule 'gone'"),
    ],
)
def test_what_lacks_a_version_or_is_gone_is_stale(
    made: dict[str, Any], changed: dict[str, Any], words: str
) -> None:
    found = versions.currency(made, {**CELL, **changed})
    assert not found.current
    assert words in found.reason


def test_a_line_of_a_clone_with_changes_is_stale() -> None:
    line = {"versions": TODAY, "commit": "0123456789abcdef", "dirty": False}
    assert versions.of_line(line, CELL).current
    assert "clone with changes" in versions.of_line({**line, "dirty": True}, CELL).reason
