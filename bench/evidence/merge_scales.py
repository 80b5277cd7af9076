"""The best evidence for every published number: the paper's scale before the desk's. Smoke runs on
embedded digits, so it stands in for no number here; it is a self-test of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.grid.planned import Planned

if TYPE_CHECKING:
    import pandas as pd

    from repfl.paper_tables.core.result import Claim, Column, Figure, Result, Table, TableLayout

COMPARED = ("paper", "desk")
"""Scales whose numbers are compared with published ones, the best first."""


def with_evidence(
    planned: Sequence[Planned], records: Records, root: Path | None = None
) -> list[Planned]:
    """Return the cells of the scales at which an artefact has some result; of an artefact without
    any, the cells of its highest scale.
    """
    paper_scales = dict.fromkeys((item.paper, item.scale) for item in planned)
    committed = {key: committed_runs.read(*key, root).cells.keys() for key in paper_scales}
    stored = set(records.store.ids())
    scales: dict[str, set[str]] = {}
    for item in planned:
        if item.cell.id in stored or item.cell.id in committed[item.paper, item.scale]:
            scales.setdefault(item.key, set()).add(item.scale)
    for item in sorted(planned, key=lambda item: _rank(item.scale)):
        scales.setdefault(item.key, {item.scale})
    return [item for item in planned if item.scale in scales[item.key]]


def merged(results: Sequence[Result]) -> list[Result]:
    """Return one result per artefact, in the order of the first of each."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.key, []).append(result)
    return [_merge(sorted(group, key=lambda each: _rank(each.scale))) for group in groups.values()]


def _rank(scale: str) -> int:
    return COMPARED.index(scale) if scale in COMPARED else len(COMPARED)


def _merge(group: Sequence[Result]) -> Result:
    """Merge the results of one artefact, the highest scale first."""
    from repfl.paper_tables.core.result import Absent, Figure, Table

    made = [result for result in group if not isinstance(result, Absent)]
    if len(made) < 2:
        return (made or group)[0]
    claims = _merge_claims(made)
    tables = [result for result in made if isinstance(result, Table)]
    if len(tables) == len(made):
        return replace(_merge_tables(tables), claims=claims)
    figures = [result for result in made if isinstance(result, Figure)]
    return replace(_drawn(figures), claims=claims)


def _drawn(figures: Sequence[Figure]) -> Figure:
    """Return the figure of one scale: the highest with a point of ours. Beside no printed number it
    is the one with most points.
    """
    with_runs = [figure for figure in figures if _count_points(figure)] or figures[:1]
    printed = any("printed" in figure.data for figure in with_runs)
    of_curves = "round" in with_runs[0].data
    first = with_runs[0] if printed or of_curves else max(with_runs, key=_count_points)
    others = "; ".join(figure.stamp for figure in with_runs if figure is not first)
    notes = (f"Runs of another size are not drawn ({others}).",) if others else ()
    return replace(first, notes=(*first.notes, *notes))


def _count_points(figure: Figure) -> int:
    """Return how many of our points a figure shows; computed sizes alone do not count."""
    if "ours" in figure.data:
        return int(figure.data["ours"].notna().sum())
    return len(figure.data) if figure.ids else 0


def _merge_claims(group: Sequence[Result]) -> tuple[Claim, ...]:
    """Return every claim once, at the scale that decides it, else at one that has runs of it."""
    best: dict[str, Claim] = {}
    for claim in (claim for result in group for claim in result.claims):
        if claim.id not in best or _evidence_rank(claim) > _evidence_rank(best[claim.id]):
            best[claim.id] = claim
    return tuple(best.values())


def _evidence_rank(claim: Claim) -> int:
    return 2 if claim.decided else 1 if claim.seeds else 0


def _merge_tables(group: Sequence[Table]) -> Table:
    """Take every cell from the highest scale that has a number of ours."""
    import pandas as pd

    frame = pd.concat([table.frame for table in group if len(table.frame)], ignore_index=True)
    best = _best(frame, ["row", "column"])
    numbers = best.loc[best["ours"].notna(), "scale"].value_counts()
    with_ours = [table for table in group if table.scale in numbers]
    most = max(with_ours, key=lambda table: numbers[table.scale], default=group[0])
    notes = dict.fromkeys(note for table in with_ours for note in table.notes)
    return replace(
        most,
        caption=_caption(most, with_ours, numbers),
        scale=with_ours[0].scale if len(with_ours) == 1 else most.scale,
        notes=tuple(notes),
        ids=tuple(dict.fromkeys(cell for ids in best["runs"] for cell in ids)),
        curve_gaps=next((t.curve_gaps for t in group if len(t.curve_gaps)), most.curve_gaps),
        frame=best,
        layout=_merge_layouts(most.layout, [table.layout for table in group]),
    )


def _caption(most: Table, tables: Sequence[Table], numbers: pd.Series) -> str:
    """Return a caption that says of each scale how many of the numbers are its own."""
    if len(tables) < 2 or not most.stamp:
        return most.caption
    sizes = (t.stamp.replace(":", f", {numbers[t.scale]} numbers:", 1) for t in tables)
    return most.caption.replace(most.stamp, ". ".join(sizes))


def _merge_layouts(most: TableLayout, layouts: Sequence[TableLayout]) -> TableLayout:
    """Return the rows and columns of all layouts, the rows beyond the paper's last."""
    rows = dict.fromkeys(row for layout in layouts for row in layout.rows)
    aside = dict.fromkeys(row for layout in layouts for row in layout.aside)
    columns: dict[str, Column] = {c.key: c for layout in layouts for c in layout.columns}
    competing = [row for row in rows if row not in aside]
    all_rows, all_columns = (*competing, *aside), tuple(columns.values())
    return replace(most, rows=all_rows, columns=all_columns, aside=tuple(aside))


def _best(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return one line per key: the first with a number of ours, else the first."""
    order = frame.assign(missing=frame["ours"].isna(), order=range(len(frame)))
    chosen = order.sort_values(["missing", "order"]).drop_duplicates(list(keys))
    return chosen.sort_values("order").drop(columns=["missing", "order"]).reset_index(drop=True)
