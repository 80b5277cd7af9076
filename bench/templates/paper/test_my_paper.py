"""From the grid to verdicts: every published number is measured and judged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from repfl.bench.cli.main import call

FOLDER = Path(__file__).with_name("my_paper")
VERDICTS = {"reproduced", "differs", "undecided"}
ASKED = ("--plugin", str(FOLDER), "--paper", "my-paper", "--scale", "paper")


def test_every_published_number_has_a_verdict(tmp_path: Path) -> None:
    where = ("--results", str(tmp_path / "results"), "--out", str(tmp_path / "report"))
    assert call(["reproduce", *ASKED, *where, "--executor", "inline"]) == 0
    for source in (FOLDER / "published").glob("table*.csv"):
        (file,) = (tmp_path / "report").rglob(source.name)
        printed = pd.read_csv(file).dropna(subset="printed")
        assert len(printed) == len(pd.read_csv(source))
        assert set(printed["verdict"]) <= VERDICTS
