"""Would the gate notice? Mistakes are planted in the methods' own code, one at a time, and the gate is asked.

They are of the kinds that people make: a swapped sign, a product for a quotient, `and` for `or`, a comparison the wrong way round, a number
that is off by one, weights that are forgotten. They are found by reading the code, so new methods are covered as they come.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

from algorithms.core.method import methods
from tests.bench.conftest import ROOT, environment

PER_METHOD = 2
AT_LEAST = 40
BAR = 0.95
PACKAGES = ("algorithms", "bench", "datasets", "paper_tables")
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.GtE: ast.Lt, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.Lt: ast.GtE}
SPARED = ("record", "__init__")
"""Functions that only tell, or only remember."""


@dataclass(frozen=True)
class Mistake:
    """One planted mistake."""

    method: str
    file: Path
    text: str
    what: str


def sites(tree: ast.AST) -> Iterator[ast.AST]:
    """The places in a method's functions where a mistake can be planted."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name not in SPARED:
            for node in (inner for statement in function.body for inner in ast.walk(statement)):
                if _is_site(node):
                    yield node


def _is_site(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in OPERATORS and not isinstance(node.right, ast.Dict)  # tables are merged with `|`
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in COMPARISONS
    return isinstance(node, ast.Call) and any(keyword.arg == "weights" for keyword in node.keywords)


def plant(node: ast.AST) -> str:
    """Make the mistake, and say which."""
    before = ast.unparse(node)
    if isinstance(node, ast.BinOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.Call):
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "weights"]
    return f"{before} -> {ast.unparse(node)}"


def mistakes(clone: Path) -> Iterator[Mistake]:
    """Some mistakes per method, spread evenly over its code."""
    for name, entry in sorted(methods().items()):
        file = clone / Path(inspect.getfile(entry.cls)).relative_to(ROOT)
        count = len(list(sites(ast.parse(file.read_text()))))
        for index in sorted({count * part // PER_METHOD for part in range(PER_METHOD)} if count else ()):
            tree = ast.parse(file.read_text())
            what = plant(list(sites(tree))[index])
            yield Mistake(name, file.relative_to(clone), ast.unparse(tree), what)


def gate(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The gate in a copy of this clone."""
    command = [sys.executable, "-m", "bench", "check", "--reference", "reference.json", "--workers", "1", *arguments]
    return subprocess.run(
        command, cwd=clone, env=environment(PYTHONPATH=str(clone)), capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.slow
def test_planted_mistakes_are_caught(tmp_path: Path) -> None:
    clones: SimpleQueue[Path] = SimpleQueue()
    for number in range(2):
        for package in PACKAGES:
            shutil.copytree(ROOT / package, tmp_path / str(number) / package, ignore=shutil.ignore_patterns("__pycache__"))
        clones.put(tmp_path / str(number))
    made = gate(tmp_path / "0", "--accept", "--reason", "before the mistakes")
    assert made.returncode == 0, made.stderr
    shutil.copy(tmp_path / "0" / "reference.json", tmp_path / "1")

    def caught(mistake: Mistake) -> bool:
        clone = clones.get()
        path = clone / mistake.file
        proper = path.read_text()
        path.write_text(mistake.text)
        try:
            return gate(clone, "--method", mistake.method).returncode == 1
        finally:
            path.write_text(proper)
            clones.put(clone)

    planted = list(mistakes(tmp_path / "0"))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(caught, planted))
    missed = [f"{mistake.method}: {mistake.what}" for mistake, hit in zip(planted, found, strict=True) if not hit]
    print(f"{sum(found)} of {len(found)} planted mistakes caught; missed: {missed}")
    assert len(planted) >= AT_LEAST
    assert sum(found) >= BAR * len(planted), missed
