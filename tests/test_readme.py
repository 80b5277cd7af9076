"""What the README and the guide promise works as it is written there."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from repfl.bench.cli.main import call

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "bench" / "GUIDE.md").read_text()
PAGES = ["README.md", "CONTRIBUTING.md", "bench/GUIDE.md", "bench/OWN.md", "bench/SCALING.md"]
PAGES += ["paper_tables/MEASURED.md", "paper_tables/RESULTS.md", "paper_tables/board/PROTOCOL.md"]
PAGES += ["paper_tables/board/README.md"]
FINDINGS = re.findall(
    r"^\* (.*?)\n  \(\[\w+\]\(([\w./]+)#([\w-]+)\)\)\.$",
    README.split("## Three findings\n")[1].split("\n## ")[0],
    flags=re.MULTILINE | re.DOTALL,
)


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
    assert call(["check", "--method", "halfway", "--plugin", example]) == 0
    assert "halfway" in capsys.readouterr().out


def test_the_variant_of_a_published_method_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    file = "bench/examples/header_first.py"
    assert file.removeprefix("bench/") in GUIDE
    assert call(["info", "header-first", "--plugin", str(ROOT / file)]) == 0
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


def named(page: str) -> set[str]:
    """The commands that a page tells readers to run."""
    text = (ROOT / page).read_text()
    blocks = "\n".join(re.findall(r"```(?:bash)?\n(.*?)```", text, flags=re.DOTALL))
    said = r"^(?:\$ )?repfl (\w+)"
    return set(re.findall(said, blocks, flags=re.MULTILINE)) | set(
        re.findall(r"`repfl (\w+)", text)
    )


def test_every_command_of_the_pages_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert named("README.md")
    assert len(named("bench/GUIDE.md")) > 10
    for command in sorted(set().union(*map(named, PAGES))):
        assert call([command, "--help"]) == 0, command


def test_the_guide_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    from repfl.bench.cli.main import command_line

    said = named("bench/GUIDE.md") | set(re.findall(r"\| (\w+)", GUIDE))
    known = {name for name, command in command_line().commands.items() if not command.hidden}
    assert known - said == set()


def test_the_readme_is_short_and_has_three_short_findings() -> None:
    assert len(README.splitlines()) < 120
    assert len(FINDINGS) == 3
    sentences = [each for words, _, _ in FINDINGS for each in re.split(r"(?<=[.])\s", words)]
    assert all(len(each.split()) <= 20 for each in sentences)
    assert all(len(words.split()) <= 40 for words, _, _ in FINDINGS)


def test_what_the_readme_says_of_the_board_stands_among_its_findings() -> None:
    """The frozen protocol first, then the rows that its addendum added."""
    text = " ".join(README.split())
    (said,) = re.findall(
        r"frozen before its first run, (\w+) leads (\d+) methods on ([\w-]+) \(([\d.]+) %\) and on"
        r" ([\w-]+) \(([\d.]+) %\); (\w+) is (\w+) and (\w+)\. An addendum, .*?, adds (.*?) and"
        r" (.*?) with a tuned fine-tuning rate",
        text,
    )
    leader, count, *recipes, other, first, second, added, rival = said
    page = (ROOT / "paper_tables" / "board" / "README.md").read_text()
    for recipe, value, place in zip(recipes[::2], recipes[1::2], (first, second), strict=True):
        (line,) = re.findall(rf"^\* ({recipe}[^:]*, frozen protocol: .*)$", page, re.MULTILINE)
        start = f"frozen protocol: {leader} has the highest accuracy of {count} methods, {value} %."
        assert start in line
        assert re.search(rf"\b{other} is {place}\b", line)
    (line,) = re.findall(r"\* (.*? ranks first on average .*)", page)
    assert f"with the added rows: {added}, own rate ranks first" in line
    assert f"“{rival}, own rate” cannot be told apart from it" in line


@pytest.mark.parametrize(("words", "page", "place"), FINDINGS)
def test_the_numbers_of_a_finding_stand_where_it_leads(words: str, page: str, place: str) -> None:
    """Numbers of a setting (CIFAR-10) and names of tables are no numbers of a finding."""
    sections = re.split(r"^#+ (?=.*$)", (ROOT / page).read_text(), flags=re.MULTILINE)
    (section,) = [
        each
        for each in sections
        if re.sub(r"[^\w -]", "", each.split("\n")[0].lower()).replace(" ", "-") == place
    ]
    spelt = {"two": "2", "seven": "seven", "ten": "ten"}
    counted = re.findall(r"(?<![\w-])(?:\d+|two|seven|ten)(?!\w)", words.lower())
    assert counted
    for number in counted:
        assert re.search(rf"\b{spelt.get(number, number)}\b", section, flags=re.IGNORECASE), number


def test_the_guide_names_the_published_code_that_methods_are_held_against() -> None:
    files = (ROOT / "tests" / "references").glob("*.py")
    used = {
        name
        for file in files
        for name in re.findall(r'"([\w.-]+/[\w.-]+)", "[0-9a-f]{7}"', file.read_text())
    }
    section = GUIDE.split("## Why believe a method here")[1].split("\n## ")[0]
    assert set(re.findall(r"\(https://github.com/([\w.-]+/[\w.-]+)\)", section)) == used != set()
