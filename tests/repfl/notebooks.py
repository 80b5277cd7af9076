"""Runs the code cells of a notebook without Jupyter; `python -m tests.repfl.notebooks` runs the
example notebook and keeps what came out in it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "bench" / "examples" / "from_python.ipynb"


def execute(notebook: dict[str, Any], folder: Path) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Every code cell with its outputs, run one after another in a folder."""
    names: dict[str, Any] = {}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with chdir(folder):
        for number, cell in enumerate(code, start=1):
            yield cell, _outputs("".join(cell["source"]), names, number)


def _outputs(source: str, names: dict[str, Any], number: int) -> list[Any]:
    """What a cell prints, then the value of its last line."""
    *before, last = ast.parse(source).body
    shown = isinstance(last, ast.Expr)
    body = ast.Module([*before] if shown else [*before, last], [])
    said, value = io.StringIO(), None
    with redirect_stdout(said):
        exec(compile(body, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[Any] = []
    if said.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(said.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        kind = {"output_type": "execute_result", "execution_count": number}
        found.append({**kind, "metadata": {}, "data": data})
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    notebook = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    os.environ["REPFL_RESULTS"] = "results"
    with tempfile.TemporaryDirectory() as folder:
        for number, (cell, outputs) in enumerate(execute(notebook, Path(folder)), start=1):
            cell |= {"outputs": outputs, "execution_count": number}
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    EXAMPLE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
