"""Published numbers without a row and a column in a table: a mistyped name drops none silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import nearest
from repfl.bench.grid import grid as grids
from repfl.bench.grid.planned import Planned
from repfl.bench.grid.schema import Cells, written_out
from repfl.paper_tables.core.result import Absent, Result, Table, shown, stated

if TYPE_CHECKING:
    import pandas as pd


def unplaced_numbers(
    planned: Sequence[Planned],
    published: pd.DataFrame,
    results: Mapping[str, Result],
    *,
    whole: bool,
) -> Iterator[str]:
    """Yield a message for every published number of a paper that none of its artefacts uses. The
    file `table1.csv` belongs to the artefact `table1`, and is checked if all columns of that are
    planned; numbers of other files, such as sentences, are checked only if the `whole` paper was
    made and nothing was missing.
    """
    paper = planned[0].paper
    sources = {name: {*shown(each)["source"], *stated(each)} for name, each in results.items()}
    all_sources = set().union(*sources.values())
    complete = {name for name in results if _has_all_columns(planned, name)}
    for row in published.to_dict("records"):
        owner = results.get(str(row["file"]).removesuffix(".csv"))
        used = sources[owner.name] if owner else all_sources
        checked = owner.name in complete if owner else whole
        if row["source"] in used or isinstance(owner, Absent) or not checked:
            continue
        where = ", ".join(str(row[name]) for name in ("dataset", "setting", "metric") if row[name])
        tables = [owner] if owner else list(results.values())
        name = owner.name if owner else "any table"
        hint = _hint(row, name, [each for each in tables if isinstance(each, Table)])
        yield (
            f"{paper}/published/{row['source']}: {row['method']} ({where}) = {row['mean']} stands"
            f" in no artefact; {hint}"
        )


def _hint(row: Mapping[Any, Any], name: str, tables: Sequence[Table]) -> str:
    """Return which field of a published number is probably mistyped."""
    requested = {key for each in tables for key in each.requested_numbers}
    methods = {key[-1] for key in requested}
    methods = methods or {str(label) for each in tables for label in each.frame["row"]}
    if (method := str(row["method"])) not in methods:
        return f"no row of {name} is published as {method!r}: {nearest(method, methods)}"
    fields = {
        **{field: {key[index] for key in requested} for index, field in enumerate(COLUMN_FIELDS)},
        "dataset and setting": {f"{key[1]}, {key[2]}" for key in requested},
    }
    values = dict(row) | {"dataset and setting": f"{row['dataset']}, {row['setting']}"}
    for field, valid in fields.items():
        if valid and values[field] not in valid:
            suggestion = nearest(values[field], valid)
            return f"no column of {name} has {field} {values[field]!r}: {suggestion}"
    return f"no row and column of {name} have its dataset, setting and metric"


COLUMN_FIELDS = ("table", "dataset", "setting")
"""The first fields of a requested number, by which a column finds its numbers."""


def misnamed_rows(planned: Sequence[Planned], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a message for every published row that the grid lacks, if the grid has a row that the
    table lacks.
    """
    for name, result in results.items():
        items = [item for item in planned if item.artefact == name]
        if not isinstance(result, Table):
            continue
        labels = {row.label for cells in _blocks(items[0]) for row in cells.rows}
        if labels - {item.row for item in items}:
            continue  # some rows were selected, and the others are rightly empty
        frame = result.frame
        sources = dict(frame.loc[frame["source"] != "", ["row", "source"]].to_numpy()[::-1])
        with_ours = set(frame.loc[frame["ours"].notna(), "row"])
        for row in sorted(sources.keys() - labels - with_ours):
            if spare := (labels & set(frame["row"])) - sources.keys():
                yield (
                    f"{result.paper}/published/{sources[row]}: row {row!r} is not in the grid's"
                    f" {name}; {nearest(row, spare)}"
                )


def _has_all_columns(planned: Sequence[Planned], artefact: str) -> bool:
    """Return whether all columns of an artefact are planned: some may have been selected."""
    items = [item for item in planned if item.artefact == artefact]
    blocks = [cells for cells in _blocks(items[0]) if items[0].scale in cells.block.scales]
    columns = {column.key for cells in blocks for column in cells.columns}
    return columns <= {item.column for item in items}


def _blocks(item: Planned) -> list[Cells]:
    """Return all blocks of a planned cell's artefact, whatever is selected."""
    path = item.file or grids.files()[item.paper]
    return list(written_out(grids.read(path).file, item.artefact))
