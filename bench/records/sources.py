"""Hashes of the code that decides a cell's numbers. Comments, docstrings and layout do not enter,
nor does what a method's registration only tells.

engine   what every cell runs through: the primitives of methods, the models, the datasets'
         descriptions and partitions, and of the harness what hands data to a run and takes numbers
         from its curves
method   the method's file, and every file that it imports and that is not of the engine, such as
         that of a method it builds on; with the files of plugins that bring the cell's dataset,
         model or partition rule

What is left out decides no number: grids and recipes are in a cell's id, the store keeps what it is
given, libraries and processors are in the platform. This file reads text and imports nothing of the
suite, so that it can be asked of any tree, and costs no library's time.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

ROOT = Path(__file__).resolve().parents[2]
COMPUTING = ("augment", "cache", "checks", "partition", "recipe", "registry", "rng", "splits")
"""Of the code of data, what computes. What fetches, reads and checks files is not told by its code:
the fingerprints that it came to are in the provenance.
"""
ENGINE = (
    "algorithms/core/**/*.py",
    "algorithms/models/**/*.py",
    "datasets/*.py",
    "datasets/partitions/*.py",
    *(f"datasets/core/{name}.py" for name in COMPUTING),
    "bench/running/clients.py",
    "bench/running/metrics.py",
)
METHODS = "algorithms"


@lru_cache(maxsize=64)
def sources(
    method: str, root: Path = ROOT, beside: frozenset[Path] = frozenset()
) -> dict[str, str]:
    """Both hashes of a method, with further files beside its own; KeyError where the tree has no
    such method.
    """
    file = _files_of_methods(root).get(method) or _plugin(method)
    if file is None:
        raise KeyError(method)
    files = {path for each in (file, *beside) for path in _closure(each, root)}
    return {"method": _hash_of(root, files), "engine": engine(root)}


def of_cell(cell: Mapping[str, Any]) -> dict[str, str]:
    """Both hashes of a cell: of its method, and of whatever plugins bring of its recipe."""
    recipe = cell["recipe"]
    rule = (recipe.get("partition") or {}).get("rule")
    named = {"dataset": recipe.get("dataset"), "model": recipe.get("model"), "partition": rule}
    plugins = sys.modules.get("repfl.bench.cells.plugins")
    found = [plugins.origin(kind, name) for kind, name in named.items()] if plugins else []
    beside = frozenset(path for path in found if path)
    return sources(cell["method"], beside=beside) if beside else sources(cell["method"])


@lru_cache(maxsize=8)
def engine(root: Path = ROOT) -> str:
    """Hash of what every cell runs through."""
    return _hash_of(root, engine_files(root))


@lru_cache(maxsize=8)
def engine_files(root: Path = ROOT) -> frozenset[Path]:
    return frozenset(path for pattern in ENGINE for path in root.glob(pattern))


def _hash_of(root: Path, files: Iterable[Path]) -> str:
    """One hash of several files, by their places in the tree; a plugin's file goes by its name."""
    lines = (
        f"{path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name}"
        f" {hash_of(path.read_bytes())}\n"
        for path in files
    )
    return sha256("".join(sorted(lines)).encode()).hexdigest()


# -- a method's files ------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _files_of_methods(root: Path) -> dict[str, Path]:
    """Where each method of a tree is registered, read from its text: `@register("name", ...)`."""
    return {
        name: path
        for path in sorted((root / METHODS).glob("*.py"))
        for name in _read(path.read_bytes()).methods
    }


def _plugin(method: str) -> Path | None:
    """The file of a method from outside, known if its plugin, hence the registry, is loaded."""
    for name, module in list(sys.modules.items()):
        if name == "repfl.algorithms.core.method" and method in (known := module.methods()):
            return Path(str(sys.modules[known[method].cls.__module__].__file__))
    return None


def _closure(file: Path, root: Path) -> set[Path]:
    """A file and all that it imports from the methods' folder or its own, without the engine."""
    found, waiting = set(), [file]
    while waiting:
        path = waiting.pop()
        if path not in found and path not in engine_files(root):
            found.add(path)
            waiting += [
                near
                for name in _read(path.read_bytes()).imports
                for near in _places(name, path.parent, root)
                if near.is_file()
            ]
    return found


def _places(name: str, folder: Path, root: Path) -> list[Path]:
    """Where a module would be: among the methods, under any namespace, or beside its importer."""
    *above, last = name.split(".")
    among = [root / METHODS / f"{last}.py"] if above[-1:] == [METHODS] else []
    return [*among, folder / f"{last}.py"] if not above or above[-1] == folder.name else among


# -- a file's code ---------------------------------------------------------------------------------


class _Read(NamedTuple):
    """What is asked of a file's text; its tree, a hundred times as large, is not kept."""

    hash: str
    imports: tuple[str, ...]
    """Dotted names of modules that it may import, also inside functions."""
    methods: tuple[str, ...]
    """What it registers."""


def hash_of(text: bytes) -> str:
    """Hash of what a file's text says to Python."""
    return _read(text).hash


@lru_cache(maxsize=1024)
def _read(text: bytes) -> _Read:
    tree = ast.parse(text)
    hashed = sha256(code(tree).encode()).hexdigest()
    return _Read(hashed, tuple(_imported(tree)), tuple(_registered(tree)))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            yield base.rstrip(".")
            yield from (f"{base}{alias.name}" for alias in node.names)


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """All statements below a block; to walk its expressions too would take ten times as long."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(block, name, ()):
            yield node
            yield from _statements(node)


def _registered(tree: ast.Module) -> Iterator[str]:
    for cls in tree.body:
        for node in cls.decorator_list if isinstance(cls, ast.ClassDef) else ():
            if _is_registration(node) and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


def code(node: object) -> str:
    """A syntax tree as text that is the same in all versions of Python.

    What is empty, or says where in the file something stands, is left out: versions differ in that.
    """
    if isinstance(node, ast.AST):
        if isinstance(node, ast.JoinedStr):  # some versions end a format with an empty text
            node = ast.JoinedStr(
                [
                    part
                    for part in node.values
                    if not (isinstance(part, ast.Constant) and part.value == "")
                ]
            )
        if isinstance(node, ast.Call) and (told := TOLD.get(_called(node))):
            kept = [keyword for keyword in node.keywords if keyword.arg not in told]
            node = ast.Call(node.func, node.args, kept)
        parts = []
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and name not in BESIDE and (text := code(value)):
                parts.append(f"{name}={text}")
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        texts = ",".join([code(item) for item in node if not _is_docstring(item)])
        return f"[{texts}]" if texts else ""
    return "" if node is None else repr(node)


BESIDE = ("kind", "type_comment", "type_ignores")
"""Fields that change nothing of what is computed."""


TOLD = {
    "register": {
        "title", "paper", "year", "family", "sends", "variants", "cost", "quick", "gate",
    },
    "param": {"paper", "search"},
}  # fmt: skip
"""What registrations and hyper-parameters only tell: they describe the method, and say how it is
checked and searched.
"""


def _is_registration(node: object) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _called(node) == "register"


def _called(node: ast.Call) -> str:
    """The name that is called; empty where it is no name alone."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_docstring(node: object) -> bool:
    """A text that stands alone: documentation of what is above it, or below."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
