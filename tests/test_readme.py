"""What the README promises works as it is written there."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from repfl.bench.cli.main import call

README = (Path(__file__).parents[1] / "README.md").read_text()


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
    assert call(["methods", "halfway", "--plugin", example, "--contract"]) == 0
    assert "halfway" in capsys.readouterr().out


def test_the_variant_of_a_published_method_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    file = "bench/examples/header_first.py"
    assert file in README
    assert (
        call(["methods", "header-first", "--plugin", str(Path(__file__).parent.parent / file)]) == 0
    )
    assert "header-first" in capsys.readouterr().out


def test_the_example_method_gets_a_row_beside_the_papers_methods(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report")]
    asked = ["--plugin", example, "--method", "halfway", "--artefact", "fedpurin/table1"]
    assert " ".join(asked[2:]) in README
    assert call(["reproduce", *asked, "--seed", "1", "--executor", "inline", *where]) == 0
    capsys.readouterr()
    lines = list(csv.DictReader((tmp_path / "report/fedpurin/table1.csv").open()))
    rows = {line["row"]: line for line in lines}
    for row in ("FedAvg", "FedPURIN", "halfway"):
        assert float(rows[row]["ours"]) > 0


def test_every_command_of_the_readme_exists() -> None:
    blocks = "\n".join(re.findall(r"```\n(.*?)```", README, flags=re.DOTALL))
    named = set(re.findall(r"^repfl (\w+)", blocks, flags=re.MULTILINE)) | set(
        re.findall(r"`repfl (\w+)", README)
    )
    assert named
    for command in sorted(named):
        assert call([command, "--help"]) == 0, command


def test_the_readme_names_the_published_code_that_methods_are_held_against() -> None:
    files = (Path(__file__).parent / "references").glob("*.py")
    used = {
        name
        for file in files
        for name in re.findall(r'"([\w.-]+/[\w.-]+)", "[0-9a-f]{7}"', file.read_text())
    }
    section = README.split("## Why believe a method here")[1].split("\n## ")[0]
    assert set(re.findall(r"\(https://github.com/([\w.-]+/[\w.-]+)\)", section)) == used != set()
