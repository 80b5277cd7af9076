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

    from repfl.paper_tables.core.result import Claim, Column, Figure, Result, Table

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
    with_ours = best[best["ours"].notna()]
    scales = [table.scale for table in group if (with_ours["scale"] == table.scale).any()]
    by_scale = {table.scale: table for table in group}
    lead = by_scale[str(with_ours["scale"].mode()[0])] if len(with_ours) else group[0]
    layouts = [table.layout for table in group]
    rows = dict.fromkeys(row for layout in layouts for row in layout.rows)
    aside = dict.fromkeys(row for layout in layouts for row in layout.aside)
    competing = [row for row in rows if row not in aside]
    columns: dict[str, Column] = {c.key: c for layout in layouts for c in layout.columns}
    notes = dict.fromkeys(note for scale in scales for note in by_scale[scale].notes)
    caption = lead.caption
    if len(scales) > 1 and lead.stamp:
        counts = with_ours["scale"].value_counts()
        sizes = [
            by_scale[scale].stamp.replace(":", f", {counts[scale]} numbers:", 1) for scale in scales
        ]
        caption = caption.replace(lead.stamp, ". ".join(sizes))
    return replace(
        lead,
        caption=caption,
        scale=scales[0] if len(scales) == 1 else lead.scale,
        notes=tuple(notes),
        ids=tuple(dict.fromkeys(cell for ids in best["runs"] for cell in ids)),
        curve_gaps=next((t.curve_gaps for t in group if len(t.curve_gaps)), lead.curve_gaps),
        frame=best,
        layout=replace(
            lead.layout,
            rows=(*competing, *aside),
            columns=tuple(columns.values()),
            aside=tuple(aside),
        ),
    )


def _best(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return one line per key: the first with a number of ours, else the first."""
    order = frame.assign(missing=frame["ours"].isna(), order=range(len(frame)))
    chosen = order.sort_values(["missing", "order"]).drop_duplicates(list(keys))
    return chosen.sort_values("order").drop(columns=["missing", "order"]).reset_index(drop=True)
