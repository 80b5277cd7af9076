"""From planned cells and stored records to tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from repfl.bench.errors import Corrupt, UserError, nearest, one_line, with_class
from repfl.bench.evidence import selection
from repfl.bench.evidence.artefact_evidence import ArtefactEvidence
from repfl.bench.evidence.cell_evidence import CellEvidence, Records
from repfl.bench.evidence.committed import committed_runs, noise
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.evidence.unplaced import misnamed_rows, unplaced_numbers
from repfl.bench.grid import grid as grids
from repfl.bench.grid import plugins
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.grid.schema import GridFile
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from repfl.paper_tables.core.published import read_published

if TYPE_CHECKING:
    import pandas as pd

    from repfl.paper_tables.core.evidence import Evidence
    from repfl.paper_tables.core.result import Result


@dataclass
class Artefacts:
    """The artefacts of a report, and one line for everything that went wrong on the way."""

    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    """Those of the problems that are published numbers without a row and a column."""
    failed: list[str] = field(default_factory=list)
    """The artefacts that could not be made or drawn, by `paper/name`."""
    used: dict[str, Record] = field(default_factory=dict)
    """Every record and committed run that artefacts were made from."""
    committed: set[str] = field(default_factory=set)
    """The cells of committed runs."""
    evidence: dict[str, CellEvidence] = field(default_factory=dict)
    """By paper, what the artefacts were made from."""


def make(planned: Sequence[Planned], records: Records, root: Path | None = None) -> Artefacts:
    """Make every selected artefact, from records or else from committed runs. One that cannot be
    made becomes a message in `problems`.
    """
    made = Artefacts()
    for paper in dict.fromkeys(item.paper for item in planned):
        items = [item for item in planned if item.paper == paper]
        published = published_by(paper, made)
        committed = committed_runs.read(paper, items[0].scale, root)
        made.problems += committed.problems
        cell_evidence = made.evidence[paper] = CellEvidence(records, committed)
        for item in unique(items):
            _use(item.cell.id, records, committed, made)
        for name in dict.fromkeys(item.artefact for item in items):
            selected = [item for item in items if item.artefact == name]
            cells = selection.chosen_items(selected, cell_evidence)
            trials = [item for item in selected if item.trial]
            known = noise.fitted(root or grids.ROOT)
            evidence = ArtefactEvidence(cells, cell_evidence, published, known, trials)
            made.results.append(make_one(cells[0], evidence, made))
        results = {result.name: result for result in made.results if result.paper == paper}
        unplaced = [
            *unplaced_numbers(items, published, results, whole=_is_complete(paper, items, made)),
            *misnamed_rows(items, results),
        ]
        made.unplaced += unplaced
        made.problems += unplaced
    made.problems += records.problems
    return made


def refuse_unplaced(paper: str) -> None:
    """Refuse a paper that has a published number without a row and a column, or one that cannot be
    read, before anything is computed. Its grid is taken whole, whatever is selected.
    """
    scale = max(grids.read(grids.files()[paper]).file.scales, key=grids.SCALES.index)
    with TemporaryDirectory() as nothing:
        empty = Path(nothing)
        made = make(plan(Selection([paper], scale=scale)), Records(Store(empty)), empty)
    published = read_published(grids.folder(paper) / "published")
    if problems := [*published.problems, *made.unplaced]:
        further = f" (and {len(problems) - 1} more)" if problems[1:] else ""
        raise UserError(f"{problems[0]}{further}")


def _is_complete(paper: str, planned: Sequence[Planned], made: Artefacts) -> bool:
    """Return whether all artefacts of a paper were made, with results for all their cells."""
    path = grids.files().get(paper)
    return (
        path is not None
        and set(grids.read(path).file.artefacts) == {item.artefact for item in planned}
        and all(item.cell.id in made.used for item in planned)
    )


def _use(cell: str, records: Records, committed: CommittedRuns, made: Artefacts) -> None:
    """Note the record or line that is used for a cell."""
    if (record := records.record(cell)) is not None:
        made.used[cell] = record
    elif (line := committed.line(cell)) is not None:
        made.used[cell] = line.record
        made.committed.add(cell)


def published_by(paper: str, made: Artefacts) -> pd.DataFrame:
    published = read_published(grids.folder(paper) / "published")
    made.problems += published.problems
    return published.frame


def make_one(first: Planned, evidence: ArtefactEvidence, made: Artefacts) -> Result:
    """Make one artefact; if that fails, return why as an `Absent`."""
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
    """Return the function that makes an artefact: its paper's own, or else the plain form."""
    path = item.file or grids.files()[item.paper]
    file = grids.read(path).file
    own = _own(item.paper)
    if wrong := own.keys() - file.artefacts.keys():
        name = min(wrong)
        code = path.with_name("artefacts.py")
        raise UserError(f"{code}: {name!r} is not in the grid; {nearest(name, file.artefacts)}")
    return own.get(item.artefact) or partial(_plain, (item.paper, item.artefact), file)


def _own(paper: str) -> Mapping[str, Callable[[Evidence], Result]]:
    """Return the functions of a paper's `artefacts.py`; none if it has no such file."""
    package = f"repfl.paper_tables.{paper.replace('-', '_')}"
    if package not in sys.modules and find_spec(package) is None:
        return {}
    if find_spec(f"{package}.artefacts") is None:
        return {}
    functions: Mapping[str, Callable[[Evidence], Result]] = import_module(
        f"{package}.artefacts"
    ).ARTEFACTS
    return functions


def _plain(key: tuple[str, str], file: GridFile, evidence: Evidence) -> Result:
    """Return a table or figure of the plain form."""
    from repfl.paper_tables.core import default_forms
    from repfl.paper_tables.core.statistics.verdict import Printing
    from repfl.paper_tables.core.tables import Place

    artefact = file.artefacts[key[1]]
    words = artefact.title, artefact.caption
    if artefact.kind == "figure":
        return default_forms.figure(key, words, evidence)
    places = {name: Place(**each.printed) for name, each in file.recipes.items() if each.printed}
    printing = Printing(**artefact.printing.model_dump())
    return default_forms.table(key, words, evidence, places, printing)
