"""The tables that readers of the repository see are those of the committed runs; after a change:

python -m tests.paper_tables.test_committed_tables
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repfl.bench.evidence import merge_scales
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import sheet, show_text
from repfl.bench.report.formats.markdown import markdown
from repfl.bench.store.store import Store
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.result import Table

PAPERS = grids.printed()


def pages(paper: str) -> dict[Path, str]:
    """Return a paper's tables as Markdown, at the best scale that was run, by file."""
    folder = grids.folder(paper)
    scales = merge_scales.COMPARED
    planned = [item for scale in scales for item in plan(Selection([paper], scale=scale))]
    kept = merge_scales.with_evidence(planned, Records(Store(show_text.NO_RECORDS)))
    used = {(item.key, item.scale) for item in kept}
    made = [each for scale in scales for each in show_text.made(paper, scale)]
    made = [each for each in made if (each.key, each.scale) in used]
    rows = read_published(folder / "published").by_source
    tables = [each for each in merge_scales.merged(made) if isinstance(each, Table)]
    return {
        folder / "tables" / f"{table.name}.md": markdown(sheet.sheet_of(table, rows))
        for table in tables
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_in_the_repository_are_those_of_the_committed_runs(paper: str) -> None:
    folder = grids.folder(paper)
    current = pages(paper)
    assert set(folder.glob("tables/*")) == set(current)
    for file, text in current.items():
        assert file.read_text("utf-8") == text, file.name
    linked = re.findall(r"\]\((tables/\w+\.md)\)", (folder / "README.md").read_text("utf-8"))
    assert sorted(linked) == sorted(f"tables/{file.name}" for file in current)


if __name__ == "__main__":
    for name in PAPERS:
        for file, text in pages(name).items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8")
