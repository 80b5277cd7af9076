"""The forms that most artefacts have: a table of accuracies, and curves of accuracy by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, curves, figures, tables
from repfl.paper_tables.core.accuracy import accuracy_table
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Column, Figure, Sheet, Table
from repfl.paper_tables.core.tables import Place, Row
from repfl.paper_tables.core.verdict import Printing


def table(
    evidence: Evidence,
    key: tuple[str, str],
    title: str,
    what: str,
    *,
    number: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    places: Mapping[str, Place],
    printing: Printing | None = None,
    notes: tuple[str, ...] = (),
) -> Table:
    """The artefact `key`, of a paper and by a name: printed beside ours, with verdicts, floor and
    orders. `number` is what the csv calls the table, `places` tells where in it each column stands.
    """
    rows = tables.with_guests(rows, evidence)
    frame = tables.accuracy_frame(evidence, number, rows, columns, places, printing)
    return accuracy_table(evidence, key, title, what, (frame, rows, columns), notes=notes)


def by_round(
    evidence: Evidence,
    key: tuple[str, str],
    title: str,
    what: str,
    *,
    rows: Sequence[str],
    columns: Sequence[Column],
    curve: str = "post_agg/mean",
) -> Figure:
    """The artefact `key`: one panel per column, a line per row, bands from the lowest to the
    highest seed.
    """
    data = curves.accuracy_curves(evidence, rows, [column.key for column in columns], curve)

    def draw(sheet: Sheet) -> Canvas:
        canvas = sheet(3.4 * min(3, len(columns)), 2.8 * -(-len(columns) // 3))
        for axes, column in zip(figures.panels(canvas, len(columns), 3), columns, strict=False):
            figures.curves(axes, data[data["column"] == column.key], list(rows), band=True)
            axes.set_title(figures.literal(column.label))
            axes.set_xlabel("round")
            axes.set_ylabel("accuracy in %")
        figures.legend_below(canvas, axes)
        return canvas

    caption = captions.caption(evidence, what, floor=False)
    ids = tables.done_ids(evidence)
    return Figure(*key, title, caption, evidence.scale, ids=ids, draw=draw, data=data, alt=caption)
