"""What the README and the guide tell readers to do works as it is written there."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.cli.main import call
from repfl.bench.evidence import merge_scales
from repfl.bench.grid import grid as grids
from repfl.bench.grid.catalog import published_code
from repfl.bench.grid.grid import files
from repfl.bench.report import overview, sheet, show_text
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.result import Result, State
from repfl.paper_tables.core.statistics.verdict import EXACT, UNJUDGED, Kind, Verdict
from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.settings import PLACES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "paper_tables" / "RESULTS.md").read_text()


def unlinked(text: str) -> str:
    """A text in one line, its links as the words that they stand under."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))


QUESTIONS = unlinked((ROOT / "paper_tables" / "QUESTIONS.md").read_text())


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The README's method, saved as a user would save it."""
    marked = r"<!-- tested -->\n```python\n(.*?)```"
    (code,) = re.findall(marked, README, flags=re.DOTALL)
    file = tmp_path_factory.mktemp("plugin") / "convs.py"
    file.write_text(code)
    return str(file)


def test_the_example_method_keeps_the_contract_and_gets_a_row_beside_the_papers_methods(
    example: str, tmp_path: Path
) -> None:
    assert call(["check", "--plugin", example, "--promise", "unsent"]) == 0
    asked = ["--method", "convs", "--artefact", "fedpurin/table1"]
    assert " ".join(asked) in re.sub(r" \\\n\s+", " ", README)
    where = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report")]
    few = ["--plugin", example, "--seed", "1", "--executor", "inline"]
    few += ["--column", "cifar10-dir0.1"]
    assert call(["reproduce", *asked, *few, *where]) == 0
    lines = list(csv.DictReader((tmp_path / "report/fedpurin/table1.csv").open()))
    rows = {line["row"]: line for line in lines}
    for row in ("FedAvg", "FedPURIN", "Shared convolutions"):
        assert float(rows[row]["ours"]) > 0


def test_methods_name_the_published_code_that_they_are_compared_with() -> None:
    files = (ROOT / "tests" / "references").glob("*.py")
    named = r'"([\w.-]+/[\w.-]+)", "([0-9a-f]{7})"'
    used = {pair for file in files for pair in re.findall(named, file.read_text())}
    told = {(row["code"], row["commit"]) for row in published_code()}
    assert told == used != set()
    assert {row["method"] for row in published_code()} <= set(methods())


def verdicts(numbers: list[overview.Number], last: Verdict) -> str:
    """The counts of a cell of the table of all counts."""
    told = [number.verdict for number in numbers]
    return " / ".join(str(told.count(v)) for v in (Verdict.REPRODUCED, Verdict.DIFFERS, last))


@pytest.mark.parametrize("paper", [name for name in files() if name != "board"])
def test_the_first_screen_counts_print_and_authors_files_apart(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From committed runs alone; a count that moved is to be written into RESULTS."""
    monkeypatch.setenv("REPFL_RESULTS", str(tmp_path))
    made = [each for scale in merge_scales.COMPARED for each in show_text.made(paper, scale)]
    sheets = [sheet.sheet_of(each, {}) for each in merge_scales.merged(made)]
    title = grids.read(files()[paper]).file.title
    (found,) = overview.summaries(sheets, {paper: {"title": title}})
    exact = [number for number in found.numbers if number.kind in EXACT]
    trained = [n for n in found.numbers if n.kind not in EXACT and n.verdict not in UNJUDGED]
    printed, filed = overview.apart(trained)
    counts = (
        *map(str, found.origins),
        verdicts(exact, Verdict.OTHER_SCALE),
        verdicts(printed, Verdict.UNDECIDED),
        verdicts(filed, Verdict.UNDECIDED),
    )
    page = f"{paper.replace('-', '_')}/README.md"
    (row,) = [line for line in RESULTS.splitlines() if f"({page}) |" in line]
    assert row.endswith(f"]({page}) | {' | '.join(counts)} |")
    # every published number is counted once; a printed dash is no number, nor is a setting
    published = read_published(files()[paper].parent / "published").frame
    settings = [number for each in sheets for number in each.numbers if number.kind == "setting"]
    stated = [claim for each in sheets for claim in each.claims if claim.state == "setting"]
    left_out = len(settings) + sum(len(claim.sources) for claim in stated)
    assert found.published == sum(found.origins) == (published["mean"] != "").sum() - left_out
    assert len(found.numbers) == sum(found.verdicts.values())
    # no claim of the paper is decided by accuracies of ours, and the answer begins with the counts
    assert f"* **{found.standing}**" in QUESTIONS
    decided = (State.HOLDS, State.FAILS)
    own = [claim for _, claim in found.claims if claim.state in decided and not claim.ours]
    assert all(claim.difference != claim.difference for claim in own)


CLAIMS = {
    "hold": r"(\d+) holds?\b", "do not hold": r"(\d+) do(?:es)? not hold",
    "contradict": r"(\d+) contradict", "are undecided": r"(\d+) (?:is|are) undecided",
    "are settings": r"(\d+) (?:is a|are) setting",
}  # fmt: skip


def test_claims_are_added_up_over_the_papers() -> None:
    answers = " ".join(re.findall(r"\* \*\*(.*?)\*\*", QUESTIONS))
    held, failed, against, open_, settings = (
        sum(map(int, re.findall(form, answers))) for form in CLAIMS.values()
    )
    total = sum(map(int, re.findall(r"of (\d+) claims", answers)))
    assert total == held + failed + against + open_ + settings
    agreeing = sum(map(int, re.findall(r"\((\d+) agrees? with", answers)))
    assert (
        f"Of {total}, {held} hold, {failed} do not, {against} contradict their paper's own"
        f" numbers, {settings} are settings, {open_} are undecided." in unlinked(README)
    )
    assert (
        f"of {total} claims {held} hold, {failed} do not hold, {against} contradict their paper's"
        f" own numbers, {open_} are undecided ({agreeing} of these agree with their paper's own"
        f" numbers) and {settings} are settings" in unlinked(RESULTS)
    )


def test_the_readme_is_short() -> None:
    first = README.partition("In personalised")[2].partition("```")[0]
    assert len(first.split()) <= 120
    assert len(README.split()) <= 600


def test_the_headline_adds_up_the_rows_and_keeps_print_and_files_apart() -> None:
    rows = [line.split(" | ") for line in RESULTS.splitlines() if "/README.md) | " in line]
    cells = [[cell.strip(" |") for cell in row[-3:]] for row in rows]
    triples = zip(*([cell.split(" / ") for cell in triple] for triple in cells), strict=True)
    exact, printed, filed = (
        [sum(map(int, part)) for part in zip(*each, strict=True)] for each in triples
    )
    words, results = (re.sub(r" \([^)]*\)", "", unlinked(t)) for t in (README, RESULTS))
    match, differ, other = exact
    assert f"{differ} printed counts, years and costs differ" in words
    assert (
        f"Of {sum(exact)} numbers that need no training {match} match, {differ} differ and {other}"
        " are not comparable" in results
    )
    reproduced, differ, undecided = printed
    assert differ == 0, "a printed accuracy differs: the headline says that none does"
    start = f"Of {sum(printed)} printed numbers re-run at full scale, {reproduced} are"
    assert f"{start} reproduced and {undecided} undecided" in words
    assert f"{start} reproduced, none differs and {undecided} are undecided" in results
    reproduced, differ, undecided = filed
    assert (
        f"Of {sum(filed)} values of authors' logs, {reproduced} is reproduced, {differ} differ."
        in words
    )
    assert (
        f"Of {sum(filed)} values of the authors' logs, {reproduced} is reproduced, {differ} differ"
        f" and {undecided} are undecided" in results
    )


def test_the_readme_says_of_each_paper_what_its_grid_and_pages_say() -> None:
    words = " ".join(README.split())
    for paper in grids.printed():
        about = grids.read(grids.files()[paper]).file.about
        assert f"]({grids.folder(paper).relative_to(ROOT)}/README.md). {about}" in words


@pytest.fixture(scope="module")
def fedobp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, ...]:
    """From committed runs alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPFL_RESULTS", str(tmp_path_factory.mktemp("results")))
        return show_text.made("fedobp", "paper")


def test_what_is_said_of_fedobp_is_what_was_counted(fedobp: tuple[Result, ...]) -> None:
    (row,) = [line for line in RESULTS.splitlines() if "(fedobp/README.md) |" in line]
    counts = list(map(int, row.split(" | ")[-2].split(" / ")))
    reproduced, differ, undecided = counts
    assert differ == 0
    start = f"Of {sum(counts)} re-run accuracies {reproduced} are reproduced, {undecided} undecided"
    assert grids.read(grids.files()["fedobp"]).file.about.startswith(f"{start}, none differs.")
    claims = {c.id: c for result in fedobp for c in result.claims}
    counted = r"(\d+) of (\d+) comparisons are as stated \((\d+)"
    ((run, ahead, rest),) = re.findall(counted, claims["best-in-table3"].why)
    assert run == ahead
    about = grids.read(grids.files()["fedobp"]).file.about
    assert (
        f"Table III: best in print, with one tie; of {int(ahead) + int(rest)} comparisons" in about
    )
    assert f"comparisons {ahead} were run, on CIFAR-10 at Dir(0.1) alone: ahead in all" in about


def test_logs_with_momentum_lie_as_near_to_the_reproduced_numbers_as_is_said(
    fedobp: tuple[Result, ...],
) -> None:
    numbers = [n for result in fedobp for n in sheet.sheet_of(result, {}).numbers]
    met = [n for n in numbers if n.verdict == Verdict.REPRODUCED and n.kind == Kind.TRAINED]
    best = logs.last_runs().set_index(logs.KEYS)["best"]
    places = [(PLACES[n.column].dataset, PLACES[n.column].setting, n.row) for n in met]
    gaps = [abs(best[place] - (n.printed or 0.0)) for place, n in zip(places, met, strict=True)]
    said = f"within {max(gaps):.2f} points"
    pages = ("RESULTS.md", "QUESTIONS.md", "fedobp/README.md", "../bench/STATISTICS.md")
    texts = (" ".join((ROOT / "paper_tables" / page).read_text().split()) for page in pages)
    assert [text.count(said) for text in texts] == [3, 1, 1, 1]


NUMERALS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NUMERALS += ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"]
FINDING = re.compile(
    r"(\w+) of the (\w+) accuracies of FedOBP that have two full runs.*?"
    r"The other (\w+) lie within ([\d.]+) points(.*?)"
    r"So are the (\d+) with one run, of which (\d+) lie within ([\d.]+) points"
)


def test_the_finding_on_fedobps_accuracies_is_that_of_its_numbers(
    fedobp: tuple[Result, ...],
) -> None:
    read = FINDING.search(" ".join(RESULTS.split()))
    assert read is not None
    numbers = [n for result in fedobp for n in sheet.sheet_of(result, {}).numbers]
    gaps = defaultdict[tuple[bool, bool], list[float]](list)
    for number in overview.apart([n for n in numbers if n.kind not in EXACT])[0]:
        if number.verdict not in UNJUDGED and number.difference is not None:
            several, reproduced = number.seeds > 1, number.verdict == Verdict.REPRODUCED
            gaps[several, reproduced].append(abs(number.difference))
    once, undecided, decided = gaps[False, False], gaps[True, False], len(gaps[True, True])
    counts = [NUMERALS.index(read[group].lower()) for group in (1, 2, 3)]
    assert counts == [decided, decided + len(undecided), len(undecided)]
    assert float(read[4]) == round(max(undecided), 2)
    assert int(read[6]) == len(once)
    assert int(read[7]) == sum(gap <= float(read[8]) for gap in once)
    pairs = {(f"{n.ours:.2f}", f"{n.printed:.2f}") for n in numbers if n.ours and n.printed}
    shown = re.findall(r"([\d.]{5}) \((?:reported )?([\d.]{5})\)", read[5])
    assert shown
    assert set(shown) <= pairs
