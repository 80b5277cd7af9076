"""The hash of a Python file's code, which comments, docstrings and blank lines do not change."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def file_digest(file: Path) -> str:
    """Hash a file: whether it is still the one that was loaded."""
    return twice(file.read_bytes())


def code_digest(file: Path) -> str:
    """Hash what is left of a Python file without comments, docstrings and blank lines; the whole
    file if it is no Python.

    The text is hashed, not the syntax tree, whose form differs between versions of Python.
    """
    content = file.read_bytes()
    try:
        return twice(code_of(content).encode())
    except (SyntaxError, ValueError, tokenize.TokenError):
        return twice(content)


def twice(content: bytes) -> str:
    return sha256(sha256(content).digest()).hexdigest()


def code_of(content: bytes) -> str:
    """Return the lines of code of a source."""
    tree = ast.parse(content)
    text = content.decode(tokenize.detect_encoding(io.BytesIO(content).readline)[0])
    lines = text.splitlines()
    dropped = set(_docstring_lines(tree))
    kept: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row - 1] = lines[row - 1][:column]
        elif token.string.strip():
            # lines of a text over several lines are all kept, also blank ones
            kept.update(range(row, token.end[0] + 1))
    return "\n".join(lines[row - 1].rstrip() for row in sorted(kept - dropped))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of docstrings that share none with code."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first, *others = node.body
            last = first.end_lineno or first.lineno
            shared = getattr(node, "lineno", 0) == first.lineno
            if not shared and not (others and others[0].lineno == last):
                yield from range(first.lineno, last + 1)
