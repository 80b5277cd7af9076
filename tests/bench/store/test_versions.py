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
from tests.bench import invented

RECIPE: dict[str, Any] = {"dataset": "digits", "model": "tiny", "partition": {"rule": "iid"}}
CELL = {"method": "fedavg", "recipe": RECIPE}
TODAY = {"engine": ENGINE, "method": 1, "dataset": 1, "rule": 1}


def test_a_result_of_todays_versions_is_current() -> None:
    assert versions.of_cell(CELL) == TODAY
    assert versions.currency(TODAY, CELL) == Currency(True)


NEWER_METHOD = replace(method.methods()["fedavg"], version=2)
RAISED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    f"made by engine {ENGINE} (today {ENGINE + 1})": lambda patch: patch.setattr(
        core, "ENGINE", ENGINE + 1
    ),
    "made by method 1 (today 2)": lambda patch: patch.setitem(
        method._REGISTRY, "fedavg", NEWER_METHOD
    ),
    "made by dataset 1 (today 2)": lambda patch: patch.setitem(
        registry._REGISTRY, "digits", replace(registry.get("digits"), version=2)
    ),
    "made by rule 1 (today 2)": lambda patch: patch.setitem(
        partition._PARTITIONERS, "iid", partition.partitioners()["iid"]._replace(version=2)
    ),
}


@pytest.mark.parametrize("words", RAISED)
def test_a_raised_version_makes_results_stale_and_is_named(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    RAISED[words](monkeypatch)
    assert versions.currency(TODAY, CELL) == Currency(False, words)


GONE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"engine": ENGINE}, {}, "made by method 0 (today 1), dataset 0 (today 1), rule 0 (today"),
    ({**TODAY, "plugin": "a" * 64}, {}, "is not loaded"),
    (TODAY, {"method": "gone"}, "there is no method 'gone' today"),
    (TODAY, {"method": "local+dp"}, "there is no method 'local+dp' today"),  # which is refused
    (TODAY, {"recipe": RECIPE | {"dataset": "gone"}}, "there is no data set 'gone' today"),
    (TODAY, {"recipe": RECIPE | {"partition": {"rule": "gone"}}}, "no partition rule 'gone'"),
]


def test_what_lacks_a_version_or_is_gone_is_stale() -> None:
    for made, changed, words in GONE:
        found = versions.currency(made, {**CELL, **changed})
        assert not found.current
        assert words in found.reason


def test_a_line_of_a_clone_with_changes_is_stale() -> None:
    line = invented.origin(versions=TODAY, commit="0123456789abcdef", dirty=False)
    assert versions.of_line(line, CELL).current
    assert "clone with changes" in versions.of_line(line.changed(dirty=True), CELL).reason
