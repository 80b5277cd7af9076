"""The tables that readers of the repository see are those of the committed runs, and so are the
numbers that QUESTIONS.md quotes; after a change:

python -m tests.paper_tables.test_committed_tables
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from repfl.bench.evidence import merge_scales
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import overview, sheet, show_text
from repfl.bench.report.formats.markdown import markdown
from repfl.bench.store.store import Store
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.statistics.verdict import Verdict

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
    columns = {item.column: item.column_label for item in planned}
    sheets = [sheet.sheet_of(each, rows, panels=columns) for each in merge_scales.merged(made)]
    return {
        folder / "tables" / f"{each.name}.md": markdown(each)
        for each in sheets
        if each.kind == "table" or each.curves
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_in_the_repository_are_those_of_the_committed_runs(paper: str) -> None:
    folder = grids.folder(paper)
    current = pages(paper)
    assert set(folder.glob("tables/*")) == set(current)
    for file, text in current.items():
        assert file.read_text("utf-8") == text, file.name
    linked = re.findall(r"\]\((tables/[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8"))
    assert set(linked) == {f"tables/{file.name}" for file in current}


# -- answers that quote them -----------------------------------------------------------------------

ROOT = Path(__file__).parents[2] / "paper_tables"
README = ROOT.parent / "README.md"
QUESTIONS = " ".join((ROOT / "QUESTIONS.md").read_text().split())
COMPUTED = "How many seeds"
"""The question whose answer is computed below."""


def test_a_quoted_number_stands_on_the_page_that_its_answer_links() -> None:
    papers = ("fedobp/README.md", "fedpurin/README.md", "fedselect/tables/table2.md")
    pages = ("board/README.md", *papers, "star_pfl/README.md", "RESULTS.md")
    bench = ("../bench/GUIDE.md", "../bench/SPEED.md", "../docs/methods/fedavg_ft.md")
    told = " ".join((ROOT / name).read_text() for name in (*pages, *bench))
    answers = [each for each in QUESTIONS.split(" ### ") if not each.startswith(COMPUTED)]
    for number in re.findall(r"\d+\.\d+", " ".join(answers)):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", told), number


LEARNT = (ROOT / "RESULTS.md").read_text().partition("## What was learnt")[2].partition("\n## ")[0]
SENTENCES = re.findall(r"^\d+\. (.*?\]\(.*?\.md\)\))", LEARNT, re.M | re.S)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_was_learnt_stands_on_the_page_that_it_links(sentence: str) -> None:
    said = " ".join(sentence.split())
    page = (ROOT / re.findall(r"\]\((.*?)\)", said)[0]).read_text()
    numbers = re.findall(r"\d+ of [\d,]*\d|\d+ to \d+ (?:%|million)|\d+(?:[.,]\d+)+", said)
    assert numbers
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", " ".join(page.split())), number
    assert re.search(r"\((?:one|three|five|a toy)", said), "says how many runs"


def test_ten_things_were_learnt() -> None:
    assert re.findall(r"^(\d+)\. ", LEARNT, re.M) == [str(n) for n in range(1, 11)]


def test_the_runs_behind_verdicts_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPFL_RESULTS", str(tmp_path))
    made = [each for paper in PAPERS for each in show_text.made(paper, "paper")]
    summaries = overview.summaries([sheet.sheet_of(each, {}) for each in made], {})
    printed, logged = overview.apart(n for s in summaries for n in overview.judged(s.numbers))
    seeds, logs = (Counter(number.seeds for number in side) for side in (printed, logged))
    assert set(seeds) == {1, 2}
    assert set(logs) == {1, 2, 3}
    assert [logs[2], logs[3]] == [2, 2]
    assert (
        f"Of {len(printed)} printed accuracies re-run at full scale, {seeds[2]} rest on two runs"
        f" and {seeds[1]} on one; of {len(logged)} values of logs {logs[1]} rest on one run, two on"
        " two and two on three." in QUESTIONS
    )
    halves: dict[int, list[float]] = {1: [], 2: []}
    for number in printed:
        if number.difference_low is not None and number.difference_high is not None:
            halves[number.seeds].append((number.difference_high - number.difference_low) / 2)
    one, low, high = median(halves[1]), min(halves[2]), max(halves[2])
    # the paper that prints a deviation has intervals of its own
    own = [half for half in sorted(halves[1]) if abs(half - one) > 0.1]
    assert "intervals of their own, {:.2f} and {:.2f} to either side".format(*own) in QUESTIONS
    accuracies = len({number.runs for number in printed})
    assert f"they are {accuracies} accuracies" in QUESTIONS
    early = sum(number.artefact.startswith("table") for number in logged)
    first = [" ".join(page.read_text().split()) for page in (ROOT / "RESULTS.md", README)]
    for text in first:
        assert f"({accuracies} accuracies, one" in text
        assert f"as {seeds[1]} of the {len(printed)} have" in text
        assert f"only a difference above about {one + 1:.0f} points" in text
    assert f"({seeds[2]} have two)" in first[1]
    assert (
        f"({early} after the first 100 of 400 rounds, {len(logged) - early} points of" in first[0]
    )
    assert (
        f"With one run most intervals of printed numbers reach {one:.2f} points to either side, so"
        " that a difference"
        f" shows above {one + 1:.1f} points. With two runs they reach {low:.2f} to"
        f" {high:.1f}, and a difference shows above {low + 1:.1f} to {high + 1:.1f}." in QUESTIONS
    )
    stale = sum(number.stale and number.verdict == Verdict.REPRODUCED for number in printed)
    assert stale == 3
    assert "Three of the seven are marked *(stale)*" in QUESTIONS
    for page in (ROOT / "RESULTS.md", README):
        text = re.sub(r"\[(\w+)\]\([^)]*\)", r"\1", page.read_text())
        assert f"reproduced ({stale} with stale runs)" in " ".join(text.split())
    in_print, filed = (sum(s.origins[side] for s in summaries) for side in (0, 1))
    stated, shown = sum(s.sentences for s in summaries), sum(len(s.numbers) for s in summaries)
    assert (
        f"In all, {in_print} printed numbers and {filed} values of authors' files; {stated} of"
        " these stand in sentences alone and are checked as claims, so tables and figures show"
        f" {shown:,}." in " ".join((ROOT / "RESULTS.md").read_text().split())
    )


def test_persons_have_as_many_test_windows_as_the_board_says() -> None:
    text = (ROOT / "board" / "measured" / "paper.jsonl").read_text()
    lines = [line for line in map(json.loads, text.splitlines()) if line["column"] == "har-persons"]
    windows = [n for line in lines for n in (line["counts"] or {}).get("total", [])]
    said = f"on persons {min(windows)} to {max(windows)}, so about half"
    assert said in " ".join((ROOT / "board" / "README.md").read_text().split())


if __name__ == "__main__":
    for name in PAPERS:
        for file, text in pages(name).items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8")
