"""What the README says of the results: verdicts per paper, and published accuracies that a constant reaches.

    python -m bench.evidence.scorecard            print the block
    python -m bench.evidence.scorecard --write    put it into README.md, with its figure, and every paper's coverage into its own
    python -m bench.evidence.scorecard --floors   first compute the floors again, as far as the data are here

The floor of a recipe is the accuracy of always predicting a client's most frequent training class. It needs the paper's partition and no
training, so it is known at the paper scale before anything has run there. `measured/floors.csv` beside each grid keeps it.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.cells import grid as grids
from bench.cells.plan import Selection, plan
from bench.evidence import artefacts, coverage, pages
from bench.evidence.library import Library
from bench.evidence.measured import folder_of
from bench.records.store import Store
from bench.report.overview import summaries
from paper_tables.core.result import Result, Table
from paper_tables.core.verdict import ACCURACY_UNITS, FLOOR_POINTS, Verdict

README = grids.ROOT.parent / "README.md"
FIGURE = grids.ROOT / "floors.png"
FLOORS = ("recipe", "seed", "mean", "pooled", "partition")
NAMES = {"fedobp": "FedOBP", "fedpurin": "FedPURIN", "fedselect": "FedSelect", "pfeddst": "PFedDST", "star-pfl": "Star-PFL"}
WORDS = {Verdict.OTHER_SCALE: "measured at desk scale", Verdict.MISSING: "not yet measured"}


# -- floors --------------------------------------------------------------------------------------------------------------------------------


def measure_floors(paper: str) -> list[dict[str, Any]]:
    """The floors of a paper's own recipes at the paper scale, as far as their data are here."""
    import numpy as np

    from datasets.core.errors import DataError
    from datasets.core.partition import deal, floor
    from datasets.core.store import open_dataset

    grid, found = grids.read(grids.files()[paper]), []
    for name in grid.file.recipes:
        recipe = grid.recipe(name, "paper")
        if recipe.dataset == "digits":
            continue
        try:
            prepared = open_dataset(recipe.dataset)
        except DataError:
            continue
        fixed = recipe.partition.seed
        for seed in [fixed] if fixed is not None else grid.file.scales["paper"].seeds:
            shares = deal(prepared, recipe, seed)
            mean, pooled = floor(shares, np.asarray(prepared.labels))
            row = (name, seed, f"{mean:.6f}", f"{pooled:.6f}", shares.digest)
            found.append(dict(zip(FLOORS, row, strict=True)))
    return found


def keep_floors() -> None:
    """Compute and write the floors of all papers; what cannot be computed here stays as it is."""
    for paper in grids.files():
        measured = measure_floors(paper)
        known = {(row["recipe"], str(row["seed"])): row for row in [*read_floors(paper), *measured]}
        if known:
            path = folder_of(paper) / "floors.csv"
            path.parent.mkdir(exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FLOORS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(known[key] for key in sorted(known))


def read_floors(paper: str) -> list[dict[str, Any]]:
    """The committed floors of a paper."""
    path = folder_of(paper) / "floors.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def floors(paper: str) -> dict[str, float]:
    """Floor in percent by recipe, over the seeds, averaged as the recipe reports."""
    grid = grids.read(grids.files()[paper])
    found: dict[str, list[float]] = {}
    for row in read_floors(paper):
        average = "pooled" if grid.recipe(row["recipe"], "paper").evaluation.average == "pooled" else "mean"
        found.setdefault(row["recipe"], []).append(100 * float(row[average]))
    return {recipe: fmean(values) for recipe, values in found.items()}


# -- published numbers against floors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A column of accuracies, and its floor."""

    paper: str
    table: str
    column: str
    floor: float

    @property
    def title(self) -> str:
        return f"{NAMES[self.paper]} {self.table}, {self.column}"


@dataclass(frozen=True)
class Printed:
    """A published accuracy whose floor is known."""

    place: Place
    row: str
    value: float


def printed(results: Sequence[Result]) -> Iterator[Printed]:
    """Every accuracy of the paper's own rows that stands in a column with a known floor."""
    for table in results:
        if isinstance(table, Table):
            known, named = floors(table.paper), {c.key: c for c in table.layout.columns if c.unit in ACCURACY_UNITS}
            for cell in table.frame.to_dict("records"):
                column = named.get(cell["column"])
                own = cell["row"] not in table.layout.aside and cell["published"] == cell["published"]
                if column is not None and own and cell["column"] in known:
                    title = ", ".join(filter(None, (column.group, column.label)))
                    place = Place(table.paper, table.name, title, known[cell["column"]])
                    yield Printed(place, cell["row"], float(cell["published"]))


# -- the block -----------------------------------------------------------------------------------------------------------------------------


def results(scale: str, papers: Sequence[str] = ()) -> list[Result]:
    """The artefacts from what came with the code, and nothing else."""
    made = artefacts.make(plan(Selection(scale=scale, papers=papers)), Library(Store(Path("no results here"))))
    if made.problems:
        raise SystemExit("\n".join(made.problems))
    return made.results


def block(desk: Sequence[Result], paper: Sequence[Result]) -> str:
    """The README's block."""
    return "\n".join((*verdict_lines(desk), "", *floor_lines(list(printed(paper))))) + "\n"


def verdict_lines(desk: Sequence[Result]) -> list[str]:
    """How many printed numbers of each paper were given which verdict."""
    head = ["paper", "numbers in tables and figures", *(WORDS.get(v, str(v)) for v in Verdict)]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for found in summaries(desk, NAMES):
        link = f"[{found.title}](paper_tables/{found.paper.replace('-', '_')}/README.md)"
        lines.append(f"| {' | '.join([link, str(sum(found.verdicts.values())), *(str(found.verdicts[str(v)]) for v in Verdict)])} |")
    return lines


def floor_lines(known: Sequence[Printed]) -> list[str]:
    """The printed accuracies that are not above their floor."""
    low = [each for each in known if each.value <= each.place.floor + FLOOR_POINTS]
    lines = [f"Of {len(known)} printed accuracies whose floor is known at the paper scale, {len(low)} are not above it:", ""]
    for place in dict.fromkeys(each.place for each in low):
        rows = ", ".join(f"{each.row} {each.value:.2f}" for each in low if each.place == place)
        lines.append(f"* {place.title} (floor {place.floor:.2f}): {rows}")
    return lines


def draw(paper: Sequence[Result], path: Path) -> None:
    """Printed accuracies and the floor, column by column."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = list(printed(paper))
    places = list(dict.fromkeys(each.place for each in found))[::-1]
    figure = Figure(figsize=(7.2, 0.24 * len(places) + 0.8), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    heights = [places.index(each.place) for each in found]
    axes.plot([each.value for each in found], heights, "o", color="#0173b2", alpha=0.55, markersize=4, label="printed accuracies")
    mark: dict[str, Any] = {"color": "#d55e00", "markersize": 11, "markeredgewidth": 2.2, "linestyle": ""}
    axes.plot([place.floor for place in places], range(len(places)), "|", label="always the client's most frequent class", **mark)
    axes.set_yticks(range(len(places)), [place.title for place in places], fontsize=7)
    axes.set_xlabel("accuracy, percent")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": None})


def main(arguments: Sequence[str]) -> None:
    if "--floors" in arguments:
        keep_floors()
    desk, paper = results("desk"), results("paper")
    text = block(desk, paper)
    if "--write" in arguments:
        pages.write(README, "results", text)
        draw(paper, FIGURE)
        for name in grids.files():
            pages.write(coverage.page_of(name), "coverage", coverage.block(name))
    else:
        print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
