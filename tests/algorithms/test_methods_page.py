"""The page that lists all methods is current."""

from __future__ import annotations

from csv import DictReader
from inspect import getfile
from pathlib import Path

from repfl.algorithms.core.method import methods

ROOT = Path(__file__).resolve().parents[2]


def expected() -> list[list[str]]:
    """Return the cells of the table, a row for each method."""
    with (ROOT / "algorithms" / "references.csv").open() as file:
        codes = [
            (line["method"], f"{line['code']} at {line['commit']}") for line in DictReader(file)
        ]
    rows = []
    for name, method in methods().items():
        path = Path(getfile(method.cls))
        page = f"{path.stem}.md"
        link = f"[{page}]({page})" if (ROOT / "docs" / "methods" / page).exists() else "-"
        compared = sorted({code for of, code in codes if of == name})
        rows.append(
            [
                f"{method.title} (`{name}`)",
                f"[{path.name}](../../algorithms/{path.name})",
                link,
                method.family,
                str(method.year),
                ", ".join(compared) or "-",
            ]
        )
    return rows


def test_the_page_lists_every_method_with_its_file_page_and_references() -> None:
    text = (ROOT / "docs" / "methods" / "README.md").read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ") for line in text.splitlines() if "](../../algorithms/" in line
    ]
    assert sorted(rows) == sorted(expected())
