"""A paper's table or figure as a data frame, from own and committed runs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from repfl.bench.errors import UserError, unknown
from repfl.catalog import Grids, Plugins, load_plugins, paths

if TYPE_CHECKING:
    from repfl.bench.grid.plan import Selection
    from repfl.bench.store.store import Store
    from repfl.paper_tables.core.result import Figure, Table


def table(
    key: str,
    scale: str | None = None,
    results: str | Path | None = None,
    *,
    plugins: Plugins = (),
    grids: Grids = (),
) -> pd.DataFrame:
    """Return a paper's table or figure, such as "fedobp/table3", from own and committed runs; or
    one of `grids`, files of your own, such as "birds/table" of birds.toml.

    Of a table, one row per number, with the columns of `numbers.csv`: `printed`, `ours` and the
    95 % interval of its mean from `low` to `high`; their `difference` and its interval from
    `difference_low` to `difference_high`, which decides the `verdict`. Of a figure, the numbers it
    draws.
    Without a scale, the one that has most of its cells. Title, caption, scale and notes are in
    `.attrs`, and so are, as `statistics`, the paired differences of a table's rows to the best;
    and, as `curves`, how far our curves lie from the paper's; a dictionary per window of rounds.
    """
    from repfl.paper_tables.core.result import Table

    result = _result(key, scale, results, plugins, grids)
    frame = _table(result) if isinstance(result, Table) else result.data.copy()
    attributes = ("title", "caption", "scale", "notes")
    frame.attrs |= {name: getattr(result, name) for name in attributes}
    frame.attrs["curves"] = result.curve_gaps.to_dict("records")
    if isinstance(result, Table):
        frame.attrs["statistics"] = result.summary.rename(columns=_statistic).to_dict("index")
    return frame


def compare(
    key: str,
    first: str,
    second: str,
    scale: str | None = None,
    results: str | Path | None = None,
    *,
    plugins: Plugins = (),
    grids: Grids = (),
) -> pd.DataFrame:
    """Return the `difference` of two rows of a table, `first` minus `second`, in every column that
    has both: paired by their common seeds, from three on with its 95 % interval from `low` to
    `high` and the two-sided p value `p` of the paired t-test, of this column alone. The other
    arguments are those of `table`.
    """
    from repfl.paper_tables.core.claims.contrast import Contrast, by_seed, estimate
    from repfl.paper_tables.core.claims.sentences import runs_of
    from repfl.paper_tables.core.result import Table

    result = _result(key, scale, results, plugins, grids)
    if not isinstance(result, Table):
        raise UserError(f"{key}: is a figure; rows of a table can be compared")
    for row in (first, second):
        if row not in result.layout.rows:
            raise unknown("row", row, result.layout.rows)
    wide, differences = by_seed(runs_of(result.frame)), {}
    for column in result.layout.columns:
        found = estimate(Contrast({(first, column.key): 1.0, (second, column.key): -1.0}), wide)
        if found.seeds:
            differences[column.name] = {
                "difference": found.value,
                "low": found.low,
                "high": found.high,
                "p": found.p_two_sided,
                "seeds": found.seeds,
            }
    columns = ["difference", "low", "high", "p", "seeds"]
    frame = pd.DataFrame.from_dict(differences, orient="index", columns=columns)
    return frame.rename_axis("column")


def _result(
    key: str, scale: str | None, results: str | Path | None, plugins: Plugins, grids: Grids
) -> Table | Figure:
    """Return a table or figure as its paper's code makes it."""
    from repfl.bench.evidence import artefacts
    from repfl.bench.evidence.cell_evidence import Records
    from repfl.bench.grid.grid import SCALES
    from repfl.bench.grid.plan import Selection
    from repfl.bench.store.store import Store
    from repfl.paper_tables.core.result import Absent, Figure, Table

    store = Store(results)
    if scale is not None and scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    load_plugins(plugins, grids)
    planned = _planned(Selection(artefacts=[key], files=paths(grids)), scale, store)
    made = artefacts.make(planned, Records(store))
    for problem in made.problems:
        warnings.warn(problem, stacklevel=3)
    result = made.results[0]
    if isinstance(result, Absent):
        raise UserError(f"{key}: {result.caption}")
    assert isinstance(result, Table | Figure)
    return result


def _statistic(name: str) -> str:
    """Return a key that does not depend on which row leads."""
    return "minus the best" if name.startswith("minus ") else name


def _planned(selection: Selection, scale: str | None, store: Store) -> list[Any]:
    """Return the cells of an artefact at a scale, by default at the one with most results."""
    from repfl.bench.evidence.committed.committed_runs import read
    from repfl.bench.grid.grid import SCALES
    from repfl.bench.grid.plan import plan

    if scale is not None:
        return plan(replace(selection, scale=scale))
    stored, candidates = set(store.ids()), []
    for each in reversed(SCALES[1:]):  # smoke stands in for no accuracy
        try:
            planned = plan(replace(selection, scale=each))
        except UserError:  # no cells at this scale, or no such artefact, which smoke will tell
            continue
        computed = stored | read(planned[0].paper, each).cells.keys()
        candidates.append((len({item.cell.id for item in planned} & computed), planned))
    best = max(candidates, key=lambda pair: pair[0], default=(0, []))
    return best[1] if best[0] else plan(selection)


def _table(result: Table) -> pd.DataFrame:
    """Return the numbers of a table by row and name of the column."""
    from repfl.bench.report import numbers

    frame = numbers.frame(numbers.of_result(result, {}))
    named = frame.assign(column=frame["where"]).set_index(["row", "column"])
    return named.drop(columns=["paper", "artefact", "id", "where"])
