"""What paper_tables/RESULTS.md says: verdicts per paper, and published accuracies that a constant
reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repfl.bench.grid import grid as grids
from repfl.bench.grid.valid import known_entry
from repfl.bench.pages import committed, floors
from repfl.paper_tables.core.result import Result, Table, shown, stated
from repfl.paper_tables.core.verdict import ACCURACY_UNITS, UNJUDGED, Kind, Verdict, at_floor

PAGE = grids.ROOT / "RESULTS.md"
FIGURE = grids.ROOT / "floors.png"
NAMES = {
    "fedobp": "FedOBP",
    "fedpurin": "FedPURIN",
    "fedselect": "FedSelect",
    "pfeddst": "PFedDST",
    "star-pfl": "Star-PFL",
}
SEED_UNKNOWN = frozenset({"fedselect", "pfeddst"})
"""Papers whose clients depend on a seed that nobody has stated, so that the floor of their columns
is not known either.
"""
FLOORS = "## Printed accuracies and their floor"


# -- published numbers against floors --------------------------------------------------------------


@dataclass(frozen=True)
class PaperColumn:
    """A column of accuracies, and its floor."""

    paper: str
    table: str
    column: str
    floor: float

    @property
    def title(self) -> str:
        return f"{NAMES.get(self.paper, self.paper)} {self.table}, {self.column}"


@dataclass(frozen=True)
class Printed:
    """A published accuracy whose floor is known."""

    place: PaperColumn
    row: str
    value: float


def printed(results: Sequence[Result], *, one_model: bool = False) -> Iterator[Printed]:
    """Every accuracy of a personal model, in the paper's own rows, that stands in a column with a
    known floor; or those of one model for all clients, whose floor is one constant for all.
    """
    for table in results:
        if isinstance(table, Table) and table.paper not in SEED_UNKNOWN:
            known, named = (
                floors.by_recipe(table.paper, one_model=one_model),
                {c.key: c for c in table.layout.columns if c.unit in ACCURACY_UNITS},
            )
            for cell in table.frame.to_dict("records"):
                column = named.get(cell["column"])
                own = (
                    cell["row"] not in table.layout.aside and cell["published"] == cell["published"]
                )
                if column is None or not own or cell["column"] not in known:
                    continue
                place = (table.paper, str(cell["column"]), str(cell["method"]))
                if _one_model(*place) == one_model:
                    title = ", ".join(filter(None, (column.group, column.label)))
                    held = PaperColumn(table.paper, table.name, title, known[cell["column"]])
                    yield Printed(held, cell["row"], float(cell["published"]))


def _one_model(paper: str, column: str, method: str) -> bool:
    """Whether all clients are scored with the same model."""
    recipe = grids.read(grids.files()[paper]).recipe(column, "paper")
    known = known_entry(method)
    return known is not None and known.one_model and recipe.evaluation.point == "post_agg"


# -- the block -------------------------------------------------------------------------------------


def block() -> str:
    """The page's block."""
    tables = committed.everything("paper")
    personal, shared = list(printed(tables)), list(printed(tables, one_model=True))
    papers = grids.printed()
    lines = [*total_lines(papers), "", trained_line(papers), ""]
    lines += [*verdict_lines(papers), "", FLOORS, ""]
    lines += floor_lines(personal, "personal models")
    if shared:
        lines += ["", *floor_lines(shared, "one model for all clients")]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Standing:
    """A published number: of what kind it is, and what became of it."""

    kind: str
    verdict: str


SENTENCE = f"{Kind.TEXT}, compared as a claim"


def counts(paper: str) -> dict[str, Counter[str]]:
    """How many published numbers of a paper there are of each kind, by verdict; those that only a
    sentence states have none, and are counted under an empty word.
    """
    scales = [committed.of(paper, scale) for scale in ("desk", "paper")]
    found = standing(*scales)
    told = {source for results in scales for result in results for source in stated(result)}
    kinds = {
        str(kind): Counter(each.verdict for each in found.values() if each.kind == kind)
        for kind in Kind
    }
    kinds[SENTENCE] = Counter({"": len(told - found.keys())})
    return {kind: each for kind, each in kinds.items() if each.total()}


def total_lines(papers: Sequence[str]) -> list[str]:
    """How many numbers of each kind all papers have, and how many of them have a verdict."""
    every = [counts(paper) for paper in papers]
    lines = ["| kind of number | numbers | with a verdict |", f"|{'---|' * 3}"]
    for kind in (*map(str, Kind), SENTENCE):
        summed = sum((each[kind] for each in every if kind in each), Counter[str]())
        if summed:
            unjudged = sum(summed[str(verdict)] for verdict in UNJUDGED) + summed[""]
            lines.append(f"| {kind} | {summed.total()} | {summed.total() - unjudged or ''} |")
    whole = sum(each.total() for kinds in every for each in kinds.values())
    return [*lines, f"| all | {whole} |  |"]


def trained_line(papers: Sequence[str]) -> str:
    """Say how many trained accuracies have a verdict, a value of a smaller scale, or nothing."""
    given = sum((counts(paper).get(str(Kind.TRAINED), Counter()) for paper in papers), Counter())
    small, none = given[str(Verdict.OTHER_SCALE)], given[str(Verdict.MISSING)]
    return (
        f"Of {given.total()} trained accuracies, {given.total() - small - none} have a verdict,"
        f" {small} have a number of ours from reduced runs and no verdict, and {none} have no"
        " number of ours."
    )


def verdict_lines(papers: Sequence[str]) -> list[str]:
    """How many published numbers of each paper and kind were given which verdict."""
    head = ["paper", "kind of number", "numbers", *map(str, Verdict)]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for paper in papers:
        link = f"[{NAMES.get(paper, paper)}]({paper.replace('-', '_')}/README.md)"
        for kind, given in counts(paper).items():
            lines.append(_line(link, kind, given.total(), (given[str(v)] for v in Verdict)))
    return lines


def _line(paper: str, kind: str, count: int, rest: Iterable[object]) -> str:
    return f"| {' | '.join([paper, kind, str(count), *(str(each or '') for each in rest)])} |"


def standing(*scales: Sequence[Result]) -> dict[str, Standing]:
    """Every published number of tables and figures: with its verdict at the last of the given
    scales that has one.
    """
    found: dict[str, Standing] = {}
    for result in (result for results in scales for result in results):
        for source, verdict, kind in shown(result).dropna().itertuples(index=False):
            if source not in found or verdict != Verdict.MISSING:
                found[source] = Standing(kind, verdict)
    return found


def floor_lines(known: Sequence[Printed], whose: str) -> list[str]:
    """The printed accuracies that are not above their floor."""
    low = [each for each in known if at_floor(each.value, each.place.floor)]
    told = f"Of {len(known)} printed accuracies of {whose} whose floor is known at the paper scale,"
    if not low:
        return [f"{told} all are above it."]
    lines = [f"{told} {len(low)} are not above it:", ""]
    for place in dict.fromkeys(each.place for each in low):
        rows = ", ".join(f"{each.row} {each.value:.2f}" for each in low if each.place == place)
        lines.append(f"* {place.title} (floor {place.floor:.2f}): {rows}")
    return lines


def draw(path: Path) -> None:
    """Printed accuracies and the floor, column by column."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = list(printed(committed.everything("paper")))
    places = list(dict.fromkeys(each.place for each in found))[::-1]
    figure = Figure(figsize=(7.2, 0.24 * len(places) + 0.8), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    heights = [places.index(each.place) for each in found]
    axes.plot(
        [each.value for each in found],
        heights,
        "o",
        color="#0173b2",
        alpha=0.55,
        markersize=4,
        label="printed accuracies",
    )
    mark: dict[str, Any] = {
        "color": "#d55e00",
        "markersize": 11,
        "markeredgewidth": 2.2,
        "linestyle": "",
    }
    axes.plot(
        [place.floor for place in places],
        range(len(places)),
        "|",
        label="always the client's most frequent class",
        **mark,
    )
    axes.set_yticks(range(len(places)), [place.title for place in places], fontsize=7)
    axes.set_xlabel("accuracy, percent")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": None})
