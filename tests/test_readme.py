"""What the README and the guide tell readers to do works as it is written there."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.cli.main import call
from repfl.bench.grid.catalog import published_code

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The README's method, saved as a user would save it."""
    marked = r"<!-- the test suite runs this example -->\n```python\n(.*?)```"
    (code,) = re.findall(marked, README, flags=re.DOTALL)
    file = tmp_path_factory.mktemp("plugin") / "halfway.py"
    file.write_text(code)
    return str(file)


def test_the_example_method_keeps_the_contract(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["check", "--plugin", example, "--promise", "unsent"]) == 0
    assert "halfway" in capsys.readouterr().out


def test_the_example_method_gets_a_row_beside_the_papers_methods(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--method", "halfway", "--artefact", "fedpurin/table1"]
    assert " ".join(asked) in re.sub(r" \\\n\s+", " ", README)
    where = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report")]
    few = ["--plugin", example, "--seed", "1", "--executor", "inline"]
    few += ["--column", "cifar10-dir0.1"]
    assert call(["reproduce", *asked, *few, *where]) == 0
    lines = list(csv.DictReader((tmp_path / "report/fedpurin/table1.csv").open()))
    rows = {line["row"]: line for line in lines}
    for row in ("FedAvg", "FedPURIN", "Half-way"):
        assert float(rows[row]["ours"]) > 0


def test_methods_name_the_published_code_that_they_are_compared_with() -> None:
    files = (ROOT / "tests" / "references").glob("*.py")
    named = r'"([\w.-]+/[\w.-]+)", "([0-9a-f]{7})"'
    used = {pair for file in files for pair in re.findall(named, file.read_text())}
    told = {(row["code"], row["commit"]) for row in published_code()}
    assert told == used - {("AvivSham/pFedHN", "1bc0549")} != set()  # that of an example
    assert {row["method"] for row in published_code()} <= set(methods())
