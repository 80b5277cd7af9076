"""The house keeps its shape: imports run one way, methods hold mathematics only, and nothing draws
from a global generator.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("algorithms", "bench", "datasets", "paper_tables")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
METHODS = sorted((ROOT / "algorithms").glob("*.py"))
LAYERS = ("errors", "grid", "store", "run", "check", "evidence", "report", "cli")
"""The folders of `bench`, from the ground up: each may use those before it."""
OF_ALGORITHMS = ("engine", "models", "core", "math", "wrappers")
"""Likewise those of `algorithms`, below the methods."""
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


def parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts


@cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names of everything a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return frozenset(found)


def below(path: Path, package: str) -> set[str]:
    """The parts of one of our packages that a file imports."""
    names = [name.split(".") for name in imported(path)]
    return {[*name, ""][2] for name in names if name[:2] == ["repfl", package]}


def test_only_bench_imports_other_packages() -> None:
    for path in SOURCES:
        package = parts(path)[0]
        # plain dataclasses, parts of a recipe
        allowed = {"repfl.algorithms.core.settings"} if package == "datasets" else set()
        names = imported(path) - allowed
        assert not {name.split(".")[0] for name in names} & set(PACKAGES), f"{path}: below repfl"
        others = {name.split(".")[1] for name in names if name.startswith("repfl.")} - {package}
        # studies are scripts: nothing imports them
        assert package == "bench" or "studies" in parts(path) or not others, path


def test_the_harness_and_the_algorithms_are_built_in_layers() -> None:
    for package, layers in (("bench", LAYERS), ("algorithms", OF_ALGORITHMS)):
        for path in SOURCES:
            if parts(path)[0] == package and parts(path)[1] in layers and len(parts(path)) > 2:
                own = layers.index(parts(path)[1])
                assert below(path, package) <= set(layers[: own + 1]), path


def test_papers_share_the_core_alone() -> None:
    for path in SOURCES:
        if parts(path)[0] == "paper_tables":
            shared = {"core", *(["studies"] if "studies" in parts(path) else [])}
            assert below(path, "paper_tables") <= {*shared, parts(path)[1]}, path


def test_method_files_import_mathematics_only_and_register_a_method() -> None:
    for path in METHODS:
        assert {name.split(".")[0] for name in imported(path)} <= ALLOWED_IN_METHODS, path
        ours = [name for name in imported(path) if name.startswith("repfl.")]
        assert all(name.startswith(OF_OURS) for name in ours), path
        assert "@register(" in path.read_text(), path


def test_nothing_draws_from_a_global_generator() -> None:
    lines = [(path, line) for path in SOURCES for line in path.read_text().splitlines()]
    assert [f"{path}: {line}" for path, line in lines if GLOBAL_DRAWS.search(line)] == []


def test_no_file_has_outgrown_its_idea() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > 400} == {}
