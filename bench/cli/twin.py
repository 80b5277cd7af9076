"""`repfl twin`: what one option changes within one round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repfl.bench.cli.options import AsJson, Chosen, grouped, select
from repfl.bench.cli.printing import print_json, screen, table, waiting
from repfl.bench.errors import FINE, UserError


@grouped
def twin(
    chosen: Chosen,
    row: Annotated[str, typer.Option(help="the row that is trained (default: the first)")] = "",
    change: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION=VALUE",
            help="a hyper-parameter to switch; repeatable (default: what the other rows switch)",
        ),
    ] = None,
    rounds: Annotated[str, typer.Option(help="the rounds to run again, such as 1,5,10")] = "1",
    csv: Annotated[Path | None, typer.Option(help="also write the table to this file")] = None,
    as_json: AsJson = False,
) -> int:
    """Train one cell, and run single rounds of it again with one option switched. The change of the
    update, of masks, bytes and accuracy is shown beside what rounding alone does.
    """
    from repfl.bench.check.twin import row_changes, twin_rounds
    from repfl.bench.grid.methods import parse_spec

    if not (chosen.artefact or chosen.cell or chosen.grid):
        raise UserError("twin needs --artefact PAPER/NAME or --cell ID; see `repfl list artefacts`")
    planned = select(chosen)
    base, changes = row_changes(planned, row or planned[0].row)
    if change:
        changes = {each: parse_spec(f"{base.cell.method}[{each}]")[1] for each in change}
    if not changes:
        raise UserError(
            f"no other row of {base.key} switches an option of {base.row!r}; use --change"
        )
    with waiting(f"{base.row}, {base.column}") as status:
        frame = twin_rounds(
            base.cell,
            changes,
            numbers(rounds, base.cell.rounds),
            report=lambda r: status.update(f"{base.row}, {base.column}: round {r} ..."),
        )
    frame.insert(0, "seed", base.cell.seed)
    frame.insert(0, "column", base.column)
    frame.insert(0, "row", base.row)
    if csv:
        frame.to_csv(csv, index=False, float_format="%.6g")
    if as_json:
        print_json(frame.to_dict("records"))
        return FINE
    shown = table("switched", "round", "update", "mask entries that differ", "bytes", "accuracy")
    for line in frame.to_dict("records"):
        entries, differ = line["mask_entries"], line["masks_differ"]
        shown.add_row(
            str(line["change"]),
            str(line["round"]),
            f"{line['update']:.2g}",
            f"{differ:,.0f} of {entries:,}" if entries else "-",
            f"{100 * line['bytes']:+.2f} %",
            f"{line['accuracy']:+.2f}",
        )
    out = screen()
    out.print(f"{base.key}, {base.column}, seed {base.cell.seed}: {base.row}")
    out.print(shown)
    return FINE


def numbers(text: str, last: int) -> list[int]:
    """Return the rounds that a user named."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= last for part in parts):
        raise UserError(
            f"--rounds {text!r}: write whole numbers from 1 to {last}, such as 1,{last}"
        )
    return sorted(map(int, parts))
