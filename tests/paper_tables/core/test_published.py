"""Published csv files: what is read, and what is refused in one line."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from repfl.paper_tables.core.published import FIELDS, read_published

HEAD = ",".join(FIELDS)
GOOD = "P,1,CIFAR-10,alpha=0.1,FedAvg,acc,84.15,1.77,%,"


def write(folder: Path, *lines: str) -> Path:
    (folder / "table1.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_numbers_come_with_their_file_and_line(tmp_path: Path) -> None:
    row = read_published(write(tmp_path, HEAD, GOOD)).frame.iloc[0]
    assert (row["value"], row["std"], row["source"]) == (84.15, 1.77, "table1.csv:2")


def test_what_is_no_single_number_is_kept_as_printed(tmp_path: Path) -> None:
    line = "P,1,d,,m,resolution,32x32,,pixels,"
    row = read_published(write(tmp_path, HEAD, line)).frame.iloc[0]
    assert row["mean"] == "32x32"
    assert isnan(row["value"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,84.15,1.77,%", "more or fewer than 10 fields"),
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,eighty,1.77,%,", "mean 'eighty' is neither"),
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,nan,1.77,%,", "mean 'nan' is neither"),
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,184.15,1.77,%,", "outside [0, 100] for unit '%'"),
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,84.15,-1,%,", "std '-1'"),
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,84.15,inf,%,", "std 'inf'"),
        ("P,1,CIFAR-10,alpha=0.1,FedAvg,acc,,,%,", "no note says why"),
        ("P,,CIFAR-10,alpha=0.1,FedAvg,acc,84.15,,%,", "'table' is empty"),
        (GOOD, "repeats line 2"),
    ],
)
def test_a_bad_row_is_one_line_with_file_and_row_and_the_rest_is_read(
    tmp_path: Path, line: str, said: str
) -> None:
    folder = write(tmp_path, HEAD, GOOD, line, "P,1,CIFAR-10,alpha=0.5,FedAvg,acc,66.33,1.96,%,")
    found = read_published(folder)
    assert list(found.frame["value"]) == [84.15, 66.33]
    (problem,) = found.problems
    assert f"{folder / 'table1.csv'}:3: " in problem
    assert said in problem
    assert "\n" not in problem


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\x00\xff"])
def test_a_file_that_is_not_ours_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode("latin-1"))
    found = read_published(tmp_path)
    assert found.frame.empty
    assert "x.csv" in found.problems[0]
