"""From planned cells and stored records to tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import Corrupt, UserError, nearest, one_line, with_class
from repfl.bench.evidence import selection
from repfl.bench.evidence.committed import committed_runs, noise
from repfl.bench.evidence.library import CellEvidence, Library
from repfl.bench.evidence.planned_evidence import PlannedEvidence
from repfl.bench.grid import grid as grids
from repfl.bench.grid import plugins
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.grid.schema import written_out
from repfl.bench.store.store import Record

if TYPE_CHECKING:
    import pandas as pd

    from repfl.paper_tables.core.evidence import Evidence
    from repfl.paper_tables.core.result import Result


@dataclass
class Made:
    """The artefacts of a report, and one line for everything that went wrong on the way."""

    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """The artefacts that could not be made or drawn, by `paper/name`."""
    used: dict[str, Record] = field(default_factory=dict)
    """Every record and measured line that artefacts were made from."""
    measured: set[str] = field(default_factory=set)
    """The cells of measured lines."""


def make(planned: Sequence[Planned], library: Library, root: Path | None = None) -> Made:
    """Make every selected artefact, from records or else from published results. One that cannot be
    made costs a line, and says why.
    """
    made = Made()
    for paper in dict.fromkeys(item.paper for item in planned):
        mine = [item for item in planned if item.paper == paper]
        published = published_by(paper, made)
        known = committed_runs.read(paper, mine[0].scale, root)
        made.problems += known.problems
        found = CellEvidence(library, known)
        for item in unique(mine):
            _use(item.cell.id, library, known, made)
        for name in dict.fromkeys(item.artefact for item in mine):
            shown = [item for item in mine if item.artefact == name]
            cells = selection.settled(shown, found)
            tried = [item for item in shown if item.trial]
            evidence = PlannedEvidence(cells, found, published, noise.fitted(root), tried)
            made.results.append(one(cells[0], evidence, made))
        whole = _whole(paper, mine, made)
        results = [result for result in made.results if result.paper == paper]
        made.problems += unplaced(paper, published, results, whole)
        made.problems += misnamed(mine, results)
    made.problems += library.problems
    return made


def _whole(paper: str, planned: Sequence[Planned], made: Made) -> bool:
    """Return whether all of a paper's artefacts were made, from numbers of all their cells."""
    path = grids.files().get(paper)
    return (
        path is not None
        and set(grids.read(path).file.artefacts) == {item.artefact for item in planned}
        and all(item.cell.id in made.used for item in planned)
    )


def _use(cell: str, library: Library, known: committed_runs.Measured, made: Made) -> None:
    """Note what is known about a cell, and where it is from."""
    if (record := library.record(cell)) is not None:
        made.used[cell] = record
    elif (line := known.line(cell)) is not None:
        made.used[cell] = line.record
        made.measured.add(cell)


def published_by(paper: str, made: Made) -> pd.DataFrame:
    from repfl.paper_tables.core.published import read_published

    found = read_published(grids.folder(paper) / "published")
    made.problems += found.problems
    return found.frame


def one(first: Planned, evidence: PlannedEvidence, made: Made) -> Result:
    """Make one artefact, or return the reason why there is none."""
    from repfl.paper_tables.core.result import Absent

    paper, name = first.paper, first.artefact
    try:
        result = renderer(first)(evidence)
    except (UserError, Corrupt) as error:
        reason = one_line(error)
    except Exception as error:  # one artefact's fault must not cost the others
        line = plugins.line_of(error, grids.folder(paper)).removeprefix("/")
        reason = f"{line and line + ': '}{with_class(error)}"
    else:
        return _named(result, first)
    made.failed.append(f"{paper}/{name}")
    made.problems.append(f"artefact {paper}/{name}: {reason}")
    return Absent(paper, name, name, f"This artefact could not be made: {reason}", evidence.scale)


def _named(result: Result, item: Planned) -> Result:
    """Return a result if it has the name that the grid gives it."""
    if result.key != item.key:
        file = grids.folder(item.paper) / "artefacts.py"
        raise UserError(
            f"{file}: the function of {item.artefact!r} returns"
            f" {(result.paper, result.name)}; did you mean {(item.paper, item.artefact)}?"
        )
    return result


def renderer(item: Planned) -> Callable[[Evidence], Result]:
    """Return the function that makes an artefact."""
    name, module = item.artefact, f"repfl.paper_tables.{item.paper.replace('-', '_')}.artefacts"
    try:
        known = import_module(module).ARTEFACTS
    except ModuleNotFoundError as error:
        if item.file and error.name and module.startswith(error.name):
            from repfl.bench.evidence import user_grids

            artefact = grids.read(item.file).file.artefacts[name]
            return partial(user_grids.render, item.paper, name, artefact)
        raise
    if name not in known:
        raise UserError(f"{module} has no artefact {name!r}; {nearest(name, known)}")
    found: Callable[[Evidence], Result] = known[name]
    return found


# -- every published number stands somewhere: a mistyped name must not drop one silently -----------


def unplaced(
    paper: str, published: pd.DataFrame, results: Sequence[Result], whole: bool
) -> Iterator[str]:
    """Yield a line per published number that no artefact took. The file `table1.csv` belongs to the
    artefact `table1`; of other files, such as sentences, one can tell only when the `whole` paper
    was made and nothing was missing.
    """
    from repfl.paper_tables.core.result import Absent, shown, stated

    made = {result.name: result for result in results}
    sources = {each.name: {*shown(each)["source"], *stated(each)} for each in results}
    taken = set().union(*sources.values())
    for row in published.to_dict("records"):
        owner = made.get(str(row["file"]).removesuffix(".csv"))
        known = sources[owner.name] if owner else taken
        if row["source"] in known or isinstance(owner, Absent) or not (owner or whole):
            continue
        where = ", ".join(str(row[name]) for name in ("dataset", "setting", "metric") if row[name])
        yield (
            f"{paper}/published/{row['source']}: {row['method']} ({where}) = {row['mean']} stands"
            f" in no artefact; {_hint(row, owner, made)}"
        )


def _hint(row: Mapping[Any, Any], owner: Result | None, made: Mapping[str, Result]) -> str:
    """Say which part of a published number's place is probably mistyped."""
    from repfl.paper_tables.core.result import Table

    shown = [each for each in ([owner] if owner else made.values()) if isinstance(each, Table)]
    sought = {place for each in shown for place in each.looked_up}
    name, method = owner.name if owner else "any table", str(row["method"])
    known = {place[-1] for place in sought} or {
        str(label) for t in shown for label in t.frame["row"]
    }
    if method not in known:
        return f"no row of {name} is published as {method!r}: {nearest(method, known)}"
    for index, field_ in enumerate(("table", "dataset", "setting")):
        known = {place[index] for place in sought}
        if known and row[field_] not in known:
            return (
                f"no column of {name} has {field_} {row[field_]!r}: {nearest(row[field_], known)}"
            )
    here, known = (
        f"{row['dataset']}, {row['setting']}",
        {f"{place[1]}, {place[2]}" for place in sought},
    )
    if known and here not in known:
        return f"no column of {name} has dataset and setting {here!r}: {nearest(here, known)}"
    return f"no row and column of {name} have its dataset, setting and metric"


def misnamed(planned: Sequence[Planned], results: Sequence[Result]) -> Iterator[str]:
    """Yield a line per published row of a table that the grid lacks, if the grid has a row that the
    table lacks.
    """
    from repfl.paper_tables.core.result import Table

    for result in results:
        mine = [item for item in planned if item.artefact == result.name]
        if not mine or not isinstance(result, Table):
            continue
        path = mine[0].file or grids.files()[result.paper]
        cells = written_out(grids.read(path).file, result.name)
        labels = {row.label for each in cells for row in each.rows}
        if labels - {item.row for item in mine}:
            continue  # some rows were selected, and the others are rightly empty
        frame = result.frame
        published = set(frame.loc[frame["source"] != "", "row"])
        measured = set(frame.loc[frame["ours"].notna(), "row"])
        for row in sorted(published - labels - measured):
            if spare := (labels & set(frame["row"])) - published:
                yield (
                    f"{result.key}: row {row!r} is not in the grid's {result.name};"
                    f" {nearest(row, spare)}"
                )
