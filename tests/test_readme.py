"""What the README and the guide promise works as it is written there."""

from __future__ import annotations

import csv
import re
import tomllib
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
    assert call(["methods", "halfway", "--plugin", example, "--contract"]) == 0
    assert "halfway" in capsys.readouterr().out


def test_the_variant_of_a_published_method_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    file = "bench/examples/header_first.py"
    assert file.removeprefix("bench/") in GUIDE
    assert call(["methods", "header-first", "--plugin", str(ROOT / file)]) == 0
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
    assert all(len(words.split()) < 20 for words, _, _ in FINDINGS)


def test_what_the_readme_says_of_the_board_stands_among_its_findings() -> None:
    text = " ".join(README.split())
    (said,) = re.findall(
        r"On ([\w-]+) and on ([\w-]+), (.*?) comes first of (\d+) methods\. (.*?), which is .*?,"
        r" cannot be told apart from it when it, too, fine-tunes at a learning rate of its own",
        text,
    )
    *recipes, leader, count, rival = said
    page = (ROOT / "paper_tables" / "board" / "README.md").read_text()
    (line,) = re.findall(r"\* (.*? ranks first on average .*)", page)
    assert re.match(rf"{recipes[0]}.*? and {recipes[1]}.*?: {leader}, own rate ranks first", line)
    assert f"). “{rival}, own rate” cannot be told apart from it (Tukey's test" in line
    grid = tomllib.loads((ROOT / "paper_tables" / "board" / "grid.toml").read_text())
    assert count == str(len(grid["rows"]["all"]))


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
