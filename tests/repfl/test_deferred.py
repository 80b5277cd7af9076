"""Slow libraries are imported when something uses them, and by nothing that only looks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from repfl.bench.running import devices
from tests.bench.conftest import ROOT

LOADED = "; import sys, json; print(json.dumps([m for m in {!r} if m in sys.modules]))"
SLOW = ("torch", "pandas", "pyarrow", "scipy", "matplotlib", "sklearn")


def loaded(code: str, *libraries: str) -> list[str]:
    """Which of these are there after code has run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code + LOADED.format(libraries)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "COLUMNS": "200"},
        cwd=ROOT,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def after(*arguments: str, libraries: tuple[str, ...] = SLOW) -> list[str]:
    return loaded(
        f"from repfl.bench.cli.main import call; assert call({list(arguments)}) == 0", *libraries
    )


def test_importing_repfl_imports_no_slow_library() -> None:
    assert loaded("import repfl", *SLOW, "numpy", "typer") == []


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["methods"],
        ["methods", "fedobp"],
        ["plan", "--results", "nowhere"],
        ["plan", "--scale", "desk", "--results", "nowhere"],
        ["plan", "--artefact", "fedpurin/table1", "--method", "fedselect", "--results", "nowhere"],
        ["artefacts", "--results", "nowhere"],
        ["datasets"],
        ["data", "list"],
    ],
    ids=" ".join,
)
def test_a_command_that_computes_nothing_imports_no_slow_library(command: list[str]) -> None:
    assert after(*command) == []


def test_a_table_is_reported_without_a_library_that_it_does_not_use(tmp_path: Path) -> None:
    asked = ["report", "--scale", "smoke", "--artefact", "fedobp/table1"]
    places = ["--results", str(tmp_path), "--out", str(tmp_path / "report")]
    unused = ("torch", "matplotlib", "seaborn", "sklearn", "scipy.stats")
    assert after(*asked, *places, libraries=(*unused, "scipy")) == ["scipy"]


def test_devices_are_counted_without_pytorch_where_no_driver_is() -> None:
    code = "from repfl.bench.running import devices; found, there = devices.gpus(),"
    assert loaded(f"{code} devices._driver(); assert there or not found", "torch") == (
        ["torch"] if devices._driver() else []
    )


def test_a_part_that_a_loaded_library_lacks_is_put_off_too(package: Path) -> None:
    probe(package, "import slow_library\nslow_library.value")
    names = probe(package, "from slow_library import inner, value", "later")
    assert "slow_library.inner" not in sys.modules
    assert eval("inner.two() == 2 and value == 3", dict(names))


def test_methods_are_listed_without_numpy() -> None:
    assert after("methods", libraries=("numpy",)) == []


def test_the_check_of_a_models_layers_needs_no_library() -> None:
    """FedBN needs batch norm; whether a model has it is known from its layout."""
    code = "from repfl.bench.cells.needs import _has_norm; assert _has_norm('resnet8', (3, 32))"
    assert loaded(f"{code} and not _has_norm('cnn4', (3, 32))", "torch") == []


def test_nothing_is_left_to_import_once_methods_compute() -> None:
    """A stand-in that is handed on as a value would stay one, and be slow."""
    code = """
from repfl.algorithms.core.method import methods; methods()
import sys
assert "torch" not in sys.modules
import repfl.algorithms.core.federation
from repfl.deferred import Deferred
left = [(n, k) for n, m in sys.modules.items() if n.startswith("repfl.algorithms.")
        for k, v in vars(m).items() if type(v) is Deferred]
assert not left, left
"""
    assert loaded(code.strip(), "torch") == ["torch"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a module below repfl can be put into."""
    import repfl

    monkeypatch.setattr(repfl, "__path__", [*repfl.__path__, str(tmp_path)])
    (tmp_path / "slow_library").mkdir()
    (tmp_path / "slow_library" / "__init__.py").write_text("value = 3\n")
    (tmp_path / "slow_library" / "inner.py").write_text("class Base: pass\n\ndef two(): return 2\n")
    monkeypatch.setattr("repfl.deferred.SLOW", {"slow_library"})
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if "slow_library" in name or "repfl.probe" in name]:
        del sys.modules[name]


def probe(package: Path, text: str, after: str = "") -> dict[str, object]:
    """The names of a module of ours with this text."""
    from importlib import import_module

    (package / f"probe{after}.py").write_text(text)
    return vars(import_module(f"repfl.probe{after}"))


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("import slow_library", "slow_library.value == 3"),
        ("import slow_library.inner", "slow_library.inner.two() == 2"),
        ("import slow_library.inner as inner", "inner.two() == 2"),
        ("from slow_library import inner", "inner.two() == 2"),
        ("from slow_library.inner import two", "two() == 2"),
        ("from slow_library.inner import Base", "not isinstance(3, Base)"),
        ("from slow_library.inner import Base", "(int | Base) and (Base | None)"),
        ("from slow_library.inner import two", "two in {two}"),
    ],
)
def test_every_way_to_import_is_put_off_until_the_name_is_used(
    package: Path, text: str, use: str
) -> None:
    names = probe(package, text)
    assert "slow_library" not in sys.modules
    assert eval(use, dict(names))
    assert "slow_library" in sys.modules


def test_the_first_use_puts_the_real_thing_in_place(package: Path) -> None:
    text = "from slow_library.inner import two\n\ndef use(): return two()\n"
    names = probe(package, text)
    assert names["use"]() == 2  # type: ignore[operator]
    assert names["two"] is sys.modules["slow_library.inner"].two


def test_a_file_that_needs_a_library_to_load_simply_gets_it(package: Path) -> None:
    names = probe(package, "from slow_library.inner import Base\n\nclass Mine(Base): pass\n")
    assert names["Mine"].__mro__[1] is sys.modules["slow_library.inner"].Base  # type: ignore[attr-defined]


def test_an_import_in_a_function_is_an_import(package: Path) -> None:
    names = probe(package, "def use():\n    from slow_library.inner import two\n    return two\n")
    assert names["use"]() is sys.modules["slow_library.inner"].two  # type: ignore[operator]
