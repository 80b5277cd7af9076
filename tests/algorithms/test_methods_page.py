"""The page that lists all methods is current; after a change of a method or of references.csv:

python -m tests.algorithms.test_methods_page
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from inspect import getfile
from os.path import relpath
from pathlib import Path
from statistics import median
from typing import TypeGuard

import pytest

from repfl.algorithms.core.method import Entry, methods
from repfl.bench.grid.catalog import published_code

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "methods" / "README.md"
HEAD = "| method | file | page | family | year | lines | algorithm | variants | compared with |\n"


# -- lines -----------------------------------------------------------------------------------------


def algorithm_lines(source: str) -> int:
    """Count the lines of code without imports, docstrings, `@register` and `param` statements."""
    left_out = set[int]()
    for node in ast.walk(ast.parse(source)):
        if is_declaration(node):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = {at for at, line in enumerate(source.splitlines(), 1) if line.split("#")[0].strip()}
    return len(lines - left_out)


def is_declaration(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    """Return whether a node is an import, a docstring, a hyper-parameter or a registration."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.AnnAssign):
        return calls(node.value, "param")
    return isinstance(node, ast.Import | ast.ImportFrom) or calls(node, "register")


def calls(node: ast.AST | None, name: str) -> bool:
    """Return whether an expression is a call of a function of this name."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == name


# -- tolerances ------------------------------------------------------------------------------------


@cache
def asserted_tolerances() -> dict[str, float]:
    """Return the largest difference that each test of tests/references admits, by itself or in a
    function of that folder that it calls.
    """
    files = (ROOT / "tests" / "references").glob("*.py")
    nodes = [node for file in files for node in ast.parse(file.read_text("utf-8")).body]
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    constants = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def limits(function: ast.FunctionDef) -> Iterator[float]:
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and isinstance(node.ops[-1], ast.Lt):
                limit = node.comparators[-1]
                limit = constants.get(limit.id, limit) if isinstance(limit, ast.Name) else limit
                if isinstance(limit, ast.Constant) and isinstance(limit.value, float):
                    yield limit.value
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called = functions.get(node.func.id)
                yield from limits(called) if called not in (None, function) else ()

    tests = {name: f for name, f in functions.items() if name.startswith("test_")}
    return {name: max(limits(f), default=0.0) for name, f in tests.items()}


@pytest.mark.parametrize("row", published_code(), ids=lambda row: f"{row['method']}-{row['code']}")
def test_the_stated_tolerance_is_the_one_that_the_named_test_asserts(row: dict[str, str]) -> None:
    assert float(row["tolerance"]) == asserted_tolerances()[row["test"]] > 0


# -- the page --------------------------------------------------------------------------------------


def table() -> str:
    """Return the table, with the medians of its numbers of lines below."""
    rows, counts = [], []
    for name, method in methods().items():
        path = Path(getfile(method.cls))
        source = path.read_text("utf-8")
        counts.append((len(source.splitlines()), algorithm_lines(source)))
        rows.append((method.title.lower(), cells(name, method, path, counts[-1])))
    lines, algorithm = (f"{median(column):.0f}" for column in zip(*counts, strict=True))
    below = (
        f"Median of the {len(rows)} methods: {lines} lines, {algorithm} of them the algorithm.\n"
    )
    body = "".join(f"| {' | '.join(row)} |\n" for _, row in sorted(rows))
    return f"{HEAD}|---|---|---|---|---:|---:|---:|---:|---|\n{body}\n{below}"


def cells(name: str, method: Entry, path: Path, lines: tuple[int, int]) -> list[str]:
    """Return the row of one method."""
    own, papers = PAGE.parent / f"{path.stem}.md", ROOT / "paper_tables" / path.stem / "README.md"
    page = next((page for page in (own, papers) if page.exists()), None)
    codes = [
        f"{line['code']} at {line['commit']}"
        f"{line['what'] and ', '}{line['what']} ({line['tolerance']})"
        for line in published_code()
        if line["method"] == name
    ]
    return [
        f"{method.title} (`{name}`)",
        f"[{path.name}](../../algorithms/{path.name})",
        f"[{page.name}]({Path(relpath(page, PAGE.parent)).as_posix()})" if page else "-",
        method.family,
        str(method.year),
        *map(str, lines),
        str(len(method.variants)),
        ", ".join(codes) or "-",
    ]


def current() -> str:
    """Return the page with the table as it should be."""
    return PAGE.read_text("utf-8").partition(HEAD[:9])[0] + table()


def test_the_page_lists_every_method_with_its_lines_and_references() -> None:
    told = "a method has changed; write the page with python -m tests.algorithms.test_methods_page"
    assert PAGE.read_text("utf-8") == current(), told
    assert f"\n{len(methods())} methods are implemented" in PAGE.read_text("utf-8")


if __name__ == "__main__":
    PAGE.write_text(current(), "utf-8", newline="\n")
