"""The house keeps its shape: imports run one way, methods hold mathematics only, and nothing draws
from a global generator.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("algorithms", "bench", "datasets", "paper_tables")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
METHODS = sorted((ROOT / "algorithms").glob("*.py"))
PAPERS = sorted((ROOT / "paper_tables").rglob("*.py"))
LAYERS = ("errors", "grid", "store", "run", "check", "evidence", "report", "cli")
"""The folders of `bench`, from the ground up: each may use those before it."""
OF_ALGORITHMS = ("engine", "models", "core", "math", "wrappers")
"""Likewise those of `algorithms`, below the methods."""
HARNESS = sorted(
    path
    for path in (ROOT / "bench").rglob("*/*.py")
    if path.relative_to(ROOT / "bench").parts[0] not in ("examples", "templates")
)
ALLOWED_IN_METHODS = {
    "__future__", "collections", "contextlib", "dataclasses", "functools", "math", "numpy", "repfl",
    "scipy", "torch", "typing",
}  # fmt: skip
OF_OURS = tuple(
    f"repfl.algorithms.{part}" for part in ("core", "engine", "math", *(p.stem for p in METHODS))
)
"""A method uses the parts below, and may derive from another method."""
GLOBAL_DRAWS = re.compile(
    r"torch\.manual_seed\(|np\.random\.(seed|rand|randn|randint|choice|shuffle|permutation|dirichlet)\(|\brandom\.(seed|random|sample|shuffle|choice)\("
)


def imported(path: Path) -> set[str]:
    """Dotted names of everything a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_bench_imports_other_packages(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    names = imported(path)
    if package == "datasets":
        names.discard("repfl.algorithms.core.training")  # plain dataclasses, parts of a recipe
    assert not {name.split(".")[0] for name in names} & set(PACKAGES), "not imported below repfl"
    others = {name.split(".")[1] for name in names if name.startswith("repfl.")} - {package}
    # studies are scripts: nothing imports them
    assert package == "bench" or "studies" in path.parts or not others


@pytest.mark.parametrize("path", HARNESS, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_harness_is_built_in_layers(path: Path) -> None:
    own = LAYERS.index(path.relative_to(ROOT / "bench").parts[0])
    used = {name.split(".")[2] for name in imported(path) if name.startswith("repfl.bench.")}
    assert {name for name in used if LAYERS.index(name) > own} == set()


@pytest.mark.parametrize("folder", OF_ALGORITHMS)
def test_algorithms_are_built_in_layers(folder: str) -> None:
    files = (ROOT / "algorithms" / folder).rglob("*.py")
    names = [name.split(".") for path in files for name in imported(path)]
    used = {[*name, ""][2] for name in names if name[:2] == ["repfl", "algorithms"]}
    assert used <= set(OF_ALGORITHMS[: OF_ALGORITHMS.index(folder) + 1])


@pytest.mark.parametrize("path", PAPERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_papers_share_the_core_alone(path: Path) -> None:
    names = [name.split(".") for name in imported(path)]
    used = {[*name, ""][2] for name in names if name[:2] == ["repfl", "paper_tables"]}
    folders = path.relative_to(ROOT / "paper_tables").parts
    assert used <= {"core", folders[0], *(["studies"] if "studies" in folders else [])}


@pytest.mark.parametrize("path", METHODS, ids=lambda p: p.stem)
def test_method_files_import_mathematics_only_and_register_a_method(path: Path) -> None:
    names = imported(path)
    assert {name.split(".")[0] for name in names} <= ALLOWED_IN_METHODS
    assert all(name.startswith(OF_OURS) for name in names if name.startswith("repfl."))
    assert "@register(" in path.read_text()


def test_nothing_draws_from_a_global_generator() -> None:
    lines = [(path, line) for path in SOURCES for line in path.read_text().splitlines()]
    assert [f"{path}: {line}" for path, line in lines if GLOBAL_DRAWS.search(line)] == []


def test_no_file_has_outgrown_its_idea() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > 400} == {}
