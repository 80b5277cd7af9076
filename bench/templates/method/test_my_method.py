"""The contract of all methods, and an accuracy: both fail if the method learns nothing."""

from __future__ import annotations

from pathlib import Path

import repfl
from repfl.bench.cli.main import call

FILE = Path(__file__).with_name("my_method.py")
PLUGINS = [str(FILE)] if FILE.exists() else []
"""None, once the method is a file of algorithms/."""


def test_my_method_keeps_the_contract() -> None:
    options = [word for path in PLUGINS for word in ("--plugin", path)]
    assert call(["check", "--method", "my-method", *options]) == 0


def test_my_method_learns_more_than_the_most_frequent_class(tmp_path: Path) -> None:
    """A toy run of a paper's setting: ten rounds on digits instead of CIFAR-10."""
    setting = "fedpurin/cifar10-dir0.1"
    run = repfl.run("my-method", setting, plugins=PLUGINS, results=str(tmp_path / "results"))
    assert run.status == "done"
    assert run.accuracy > run.floor + 0.1
