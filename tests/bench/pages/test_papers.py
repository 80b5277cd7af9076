"""What the papers' own pages say of measured values is what the values say."""

from __future__ import annotations

import re

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid import grid as grids
from repfl.bench.pages import committed, coverage, excerpts, findings, lot, parts, results
from tests.bench.report import sample

ASKED = """Before.
<!-- excerpt
table = "table1"
scale = "paper"
corner = "who"
floor = true
[columns]
"easy" = "ten classes"
[rows]
"FedAvg" = "averaging"
-->
whatever stood here
<!-- end of excerpt -->
After."""


def test_the_papers_that_the_suite_was_made_for_have_their_pages() -> None:
    five = {"fedobp", "fedpurin", "fedselect", "pfeddst", "star-pfl"}
    assert {*five, "board"} <= set(coverage.documented())


@pytest.mark.parametrize("paper", coverage.documented())
def test_a_papers_page_says_how_much_of_its_grid_has_been_measured(paper: str) -> None:
    found = parts.read(coverage.page_of(paper), "coverage")
    assert found
    assert coverage.block(paper) in found


@pytest.mark.parametrize("paper", coverage.documented())
def test_what_a_papers_page_quotes_is_up_to_date(paper: str) -> None:
    text = coverage.page_of(paper).read_text(encoding="utf-8")
    assert "<!-- excerpt\n" in text
    assert excerpts.renewed(text, paper) == text


@pytest.mark.parametrize("paper", coverage.documented())
def test_what_a_papers_page_says_our_numbers_show_is_up_to_date(paper: str) -> None:
    found = parts.read(coverage.page_of(paper), "findings")
    assert found == (findings.block(paper) if paper == "board" else "")


@pytest.mark.parametrize("paper", grids.printed())
def test_a_papers_page_opens_with_what_comes_out_and_ends_with_how_to_contest_it(
    paper: str,
) -> None:
    headings = re.findall(
        r"^## (.*)$", coverage.page_of(paper).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert headings[0] == "What comes out again"
    assert headings[-2:] == ["What is open", "How to contest a statement"]
    assert (coverage.page_of(paper).parent / "AUDIT.md").exists()


def test_links_between_the_pages_lead_to_headings_that_exist() -> None:
    pages = [
        lot.README,
        lot.GUIDE,
        results.PAGE,
        *(coverage.page_of(paper) for paper in coverage.documented()),
    ]
    found = [
        (page, target, place)
        for page in pages
        for target, place in re.findall(r"\]\(([\w/.-]*)#([\w-]+)\)", page.read_text())
    ]
    assert len(found) > 10
    for page, target, place in found:
        headings = re.findall(
            r"^#+ (.*)$",
            ((page.parent / target) if target else page).read_text(),
            flags=re.MULTILINE,
        )
        assert place in {
            re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
        }, (page.name, target, place)


@pytest.fixture
def one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed, "of", lambda paper, scale, seed: (sample.small_table(),))


@pytest.mark.usefixtures("one_table")
def test_an_excerpt_quotes_what_it_names_and_leaves_the_rest_of_the_page() -> None:
    page = excerpts.renewed(ASKED, "paper-a")
    assert page.startswith(ASKED[: ASKED.index("whatever")])
    assert page.endswith("<!-- end of excerpt -->\nAfter.")
    quoted = page[page.index("-->\n") + 4 : page.index("<!-- end")]
    assert (
        quoted
        == "| who | ten classes |\n| --- | --- |\n| averaging | 85.00 |\n| always a client's most"
        " frequent class | 70.00 |\n"
    )
    assert excerpts.renewed(page, "paper-a") == page


@pytest.mark.usefixtures("one_table")
def test_what_is_printed_stands_beside_ours_if_it_is_asked_for() -> None:
    page = excerpts.renewed(
        ASKED.replace("floor = true", 'floor = true\nprinted = "in print"'), "paper-a"
    )
    cell = sample.small_table().cell("FedAvg", "easy")
    assert cell is not None
    assert (
        "| who | ten classes | in print |\n| --- | --- | --- |\n| averaging | 85.00 |"
        f" {cell['printed']} |\n" in page
    )
    assert "| always a client's most frequent class | 70.00 | – |\n" in page


@pytest.mark.usefixtures("one_table")
def test_a_deviation_comes_with_how_many_runs_it_is_of() -> None:
    page = excerpts.renewed(ASKED.replace("floor = true", "spread = true"), "paper-a")
    cell = sample.small_table().cell("FedAvg", "easy")
    assert cell is not None
    runs = f"{cell['seeds']} run{'s' * (cell['seeds'] > 1)}"
    assert re.search(rf"\| averaging \| 85\.00( ± [\d.]+)? \({runs}\) \|", page)


def test_an_excerpt_of_one_seed_has_its_runs_alone() -> None:
    frames = [
        committed.table("fedpurin", "table1", "desk", seed).frame.set_index(["row", "column"])
        for seed in (None, 1)
    ]
    place = ("FedPURIN", "cifar10-dir0.1")
    assert [frame.loc[place, "seeds"] for frame in frames] == [5, 1]


@pytest.mark.usefixtures("one_table")
def test_without_names_every_row_with_a_number_is_quoted() -> None:
    page = excerpts.renewed(
        ASKED.replace('[rows]\n"FedAvg" = "averaging"\n', "").replace('"easy"', '"hard"'), "paper-a"
    )
    assert [row in page for row in ("Separate", "FedAvg", "Ours & co_")] == [True, True, False]


@pytest.mark.usefixtures("one_table")
@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("table1", "table9", "unknown table 'table9'; did you mean table1"),
        ("FedAvg", "FedAvgg", "unknown row 'FedAvgg'; did you mean FedAvg"),
        ("easy", "easi", "unknown column 'easi'; did you mean easy"),
        ("floor =", "flor =", "cannot be read: .*flor"),
        ("floor =", "floor", "cannot be read"),
    ],
)
def test_an_excerpt_of_what_is_not_there_is_refused(right: str, wrong: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        excerpts.renewed(ASKED.replace(right, wrong), "paper-a")
