"""Artefacts of a grid of one's own: without a paper's renderer, a table is rows by recipes, and a
figure is the same as curves.
"""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, curves, figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Column, Figure, Result, Sheet, Table


def render(paper: str, name: str, kind: str, evidence: Evidence) -> Result:
    """A table or figure straight from the evidence."""
    return _figure(paper, name, evidence) if kind == "figure" else _table(paper, name, evidence)


def _columns(evidence: Evidence) -> tuple[Column, ...]:
    labels = evidence.cells.drop_duplicates("column").set_index("column")["column_label"]
    return tuple(Column(str(key), label) for key, label in labels.items())


def _table(paper: str, name: str, evidence: Evidence) -> Table:
    """Every row at every recipe, with the floor; nothing is published, so nothing is judged."""
    columns, rows = _columns(evidence), tables.with_guests((), evidence)
    frame = tables.accuracy_frame(
        evidence, name, rows, columns, {column.key: tables.Place("", "") for column in columns}
    )
    return Table(
        paper,
        name,
        name,
        captions.caption(evidence, "Accuracy as the grid's recipes report it."),
        evidence.scale,
        ids=tables.done_ids(evidence),
        frame=frame,
        layout=tables.layout_of(frame, rows, columns),
    )


def _figure(paper: str, name: str, evidence: Evidence) -> Figure:
    """Accuracy by round at the reported scoring point, one panel per recipe; bands from the lowest
    to the highest seed.
    """
    columns, labels = _columns(evidence), list(dict.fromkeys(evidence.cells["row"]))
    point, average = (
        evidence.cells[f"recipe.evaluation.{field}"].iloc[0] for field in ("point", "average")
    )
    curve = f"{point}/{'pooled' if average == 'pooled' else 'mean'}"
    data = curves.accuracy_curves(evidence, labels, [column.key for column in columns], curve)

    def draw(sheet: Sheet) -> Canvas:
        canvas = sheet(3.4 * min(3, len(columns)), 2.8 * -(-len(columns) // 3))
        for axes, column in zip(figures.panels(canvas, len(columns), 3), columns, strict=False):
            figures.curves(axes, data[data["column"] == column.key], labels, band=True)
            axes.set_title(figures.literal(column.label))
            axes.set_xlabel("round")
            axes.set_ylabel("accuracy in %")
        figures.legend_below(canvas, axes)
        return canvas

    caption = captions.caption(
        evidence, f"Accuracy by round ({curve}); bands span the seeds.", floor=False
    )
    return Figure(
        paper,
        name,
        name,
        caption,
        evidence.scale,
        ids=tables.done_ids(evidence),
        draw=draw,
        data=data,
        alt=caption,
    )
