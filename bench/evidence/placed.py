"""Every published number stands somewhere: a mistyped name must not drop one silently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from repfl.bench.errors import nearest
from repfl.paper_tables.core.result import Absent, Result, Table, shown, stated


def unplaced(
    paper: str, published: pd.DataFrame, results: Sequence[Result], whole: bool
) -> Iterator[str]:
    """One line per published number that no artefact took. The file `table1.csv` belongs to the
    artefact `table1`; of other files, such as sentences, one can tell only when the `whole` paper
    was made and nothing was missing.
    """
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
            f" in no artefact; {_hint(str(row['method']), owner, made)}"
        )


def _hint(method: str, owner: Result | None, made: dict[str, Result]) -> str:
    """What is probably mistyped."""
    tables = [owner] if owner else made.values()
    rows = [str(row) for each in tables if isinstance(each, Table) for row in each.frame["row"]]
    if method not in rows:
        return f"there is no row {method!r}: {nearest(method, set(rows))}"
    name = owner.name if owner else "any table"
    return f"no column of {name} has this dataset and setting"
