"""A sixth paper, from its start to verdicts; and no published number that is dropped in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from repfl.bench.cli.new import write
from repfl.bench.grid import grid as grids
from repfl.bench.grid import plugins
from tests.bench.conftest import Here


@pytest.fixture
def paper(tmp_path: Path) -> Iterator[Path]:
    """The start of a paper with fewer rounds, which is forgotten after the test."""
    write("paper", "sixth-one", tmp_path)
    folder = tmp_path / "sixth_one"
    text = (folder / "grid.toml").read_text().replace("rounds = 10", "rounds = 2")
    (folder / "grid.toml").write_text(text.replace("seeds = [0, 1, 2]", "seeds = [0, 1]"))
    yield folder
    plugins.forget_paper("sixth-one")


OWN = Path(__file__).parent / "own" / "artefacts.py.txt"
"""Functions for the same table and figure, as a paper would write them."""


def asked(folder: Path, *more: str) -> list[str]:
    where = ["--results", str(folder.parent / "r"), "--out", str(folder.parent / "report")]
    return ["--plugin", str(folder), "--paper", "sixth-one", "--scale", "paper", *more, *where]


def table(folder: Path) -> pd.DataFrame:
    (file,) = (folder.parent / "report").rglob("table1.csv")
    return pd.read_csv(file)


def test_a_sixth_paper_gets_from_its_start_to_verdicts(here: Here, paper: Path) -> None:
    said = here("reproduce", *asked(paper), "--executor", "inline")
    assert said.code == 0, said.err
    printed = table(paper).dropna(subset="printed")
    assert len(printed) == 4
    assert set(printed["verdict"]) <= {"differs", "undecided", "reproduced"}
    assert list((paper.parent / "report").rglob("fig1.png"))
    (page,) = (paper.parent / "report").rglob("table1.html")
    plugin = f" --plugin {paper} --results {paper.parent / 'r'} --fresh"
    commands = re.findall(r'"command":"(repfl run [^"]*)"', page.read_text())
    assert commands
    assert all(each.endswith(plugin) for each in commands)
    known = ("--plugin", paper, "--results", paper.parent / "r")
    said = here("show", "sixth-one/table1", *known)
    assert said.code == 0
    assert "not measured" not in said.out
    said = here("show", "sixth-one/table1.csv:2", *known)
    assert f"ours {printed['ours'].iloc[0]:.2f}" in said.out
    assert [line for line in said.out.splitlines() if line.endswith(plugin)]
    assert "sixth-one" in here("list", "artefacts", "--plugin", paper, "--json").out
    collected = ("--plugin", paper, "--paper", "sixth-one", "--scale", "paper")
    assert here("collect", *collected, "--results", paper.parent / "r").code == 0
    assert (paper / "measured" / "paper.jsonl").exists()
    assert here("report", *asked(paper, "--results", str(paper.parent / "none"))).code == 0
    assert set(table(paper).dropna(subset="printed")["verdict"]) == set(printed["verdict"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",FedPer,", ",FedPerr,", "'FedPerr' is not in the grid's table1; did you mean FedPer"),
        ("16 clients,FedAvg", "17 clients,FedAvg", "has setting '17 clients': did you mean"),
    ],
)
def test_a_mistyped_label_is_told_with_its_line(
    here: Here, paper: Path, old: str, new: str, words: str
) -> None:
    file = paper / "published" / "table1.csv"
    text = file.read_text()
    file.write_text(text.replace(old, new))
    said = here("report", *asked(paper))
    line = next(n for n, row in enumerate(text.splitlines(), 1) if old in row)
    assert said.code == 1
    assert words in said.out
    assert f"sixth-one/published/table1.csv:{line}: " in said.out
    few, plugin = ("--scale", "smoke", "--column", "few"), ("--plugin", paper)
    results = ("--results", paper.parent / "r")
    for command in (
        ("plan", *plugin, "--paper", "sixth-one", *few, *results),
        ("run", *plugin, "--artefact", "sixth-one/fig1", *few, *results),
        ("check", *plugin),
    ):
        said = here(*command)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
        assert f"sixth-one/published/table1.csv:{line}: " in said.err
        assert words in said.err
    assert not (paper.parent / "r").exists()


def test_numbers_of_columns_that_are_not_selected_are_no_finding(here: Here, paper: Path) -> None:
    said = here("report", *asked(paper, "--column", "few"))
    assert (said.code, "problem" in said.out) == (0, False)
    said = here("check", "--plugin", paper)
    assert (said.code, said.out) == (
        0,
        "sixth-one: every published number has a row and a column\n",
    )


def test_a_folder_without_a_grid_is_no_paper(here: Here, tmp_path: Path) -> None:
    said = here("plan", "--plugin", tmp_path)
    assert said.code == 2
    assert "without a grid.toml" in said.err


def test_a_papers_mistakes_are_told_with_file_and_line(here: Here, paper: Path) -> None:
    file = paper / "artefacts.py"
    file.write_text("import nowhere\n" + OWN.read_text().replace("from __future__", "# from"))
    said = here("plan", *asked(paper)[:6])
    assert said.code == 2
    assert "artefacts.py:1: ModuleNotFoundError" in said.err
    assert "sixth-one" not in grids.files()


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ('(PAPER, "table1")', '("sixthone", "table1")', 2, "did you mean ('sixth-one', 'table1')?"),
        ('Row("FedPer")', 'Row("Fed-Per", "FedPer")', 1, "'Fed-Per' is not in the grid's table1"),
        ('Column("few"', 'Column("feww"', 3, "column 'feww' has no place; valid: few, many"),
        ('rule="last"', 'rule="lastt"', 2, "artefacts.py:20: Printing(rule='lastt')"),
        ('"8 clients"), "many"', '"9 clients"), "many"', 1, "has setting '8 clients': did you"),
        ('{"few": Place("digits"', '{"few": Place("d"', 1, "setting 'digits, 8 clients'"),
    ],
)
def test_a_mistake_in_the_table_is_told_with_its_part(
    here: Here, paper: Path, old: str, new: str, code: int, words: str
) -> None:
    text = OWN.read_text()
    assert old in text
    (paper / "artefacts.py").write_text(text.replace(old, new))
    said = here("report", *asked(paper))
    assert said.code == code
    assert words in said.out + said.err
