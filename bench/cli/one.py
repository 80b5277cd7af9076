"""One stored record for a reader: what was run, where, what came out, how to make it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from repfl.bench.cli import options
from repfl.bench.cli.show import grid, screen
from repfl.bench.errors import Corrupt, UserError, nearest
from repfl.bench.evidence import measured, recheck, tiers
from repfl.bench.evidence.library import flatten
from repfl.bench.evidence.packing import Curve, by_name
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.run.metrics import judged
from repfl.bench.store.store import Record, Store

SPARKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Found:
    """A record, its curves, and where both are from."""

    record: Record
    curves: Mapping[str, Curve]
    again: str
    """The command that computes it again."""
    note: str = ""


def find(store: Store, prefix: str) -> Found:
    """The one record whose id starts so, out of the store or else of the values that came with the
    code.
    """
    ids = store.ids()
    if cell := _only(
        prefix, [cell for cell in ids if cell.startswith(prefix)], f"records in {store.root}"
    ):
        record = store.get(cell)
        assert record is not None  # its file was there a moment ago
        store.verify(record)
        made = record.provenance
        at = f"git checkout {made['commit']} && " if made.get("commit") else ""
        more = f"{options.again((), store)} --fresh"
        again = f"{at}{made['command']}{more}" if made.get("command") else ""
        return Found(record, by_name(store.frame(record, "rounds.parquet")), again)
    shared = {
        cell: (paper, scale) for paper, scale, cell in measured.ids() if cell.startswith(prefix)
    }
    if cell := _only(prefix, list(shared), "measured values"):
        return _measured(cell, *shared[cell])
    hint = nearest(prefix, [cell[:12] for cell in ids]) if ids else "the store is empty"
    hint = hint if len(hint) < 200 else "`repfl plan --json` lists ids"
    raise UserError(
        f"no record in {store.root} and no measured value has an id that starts with {prefix!r};"
        f" {hint}"
    )


def _only(prefix: str, found: Sequence[str], of: str) -> str:
    """The only id; none if there is none."""
    if len(found) > 1:
        raise UserError(
            f"{len(found)} {of} have ids that start with {prefix!r}:"
            f" {', '.join(cell[:12] for cell in found[:5])}"
        )
    return found[0] if found else ""


def _measured(cell: str, paper: str, scale: str) -> Found:
    """A measured line, completed by the grid that plans it."""
    known = measured.read(paper, scale)
    place = known.folder / f"{scale}.csv"
    planned = next(
        (item for item in plan(Selection(papers=[paper], scale=scale)) if item.cell.id == cell),
        None,
    )
    if planned is None:
        raise UserError(f"{place}: no grid plans cell {cell[:12]} any more")
    recheck.sound(known, [planned])
    if (line := known.line(cell)) is None:
        raise Corrupt(next(iter(known.problems), f"{place}: cell {cell[:12]} does not hold"))
    told = f"{tiers.tiers(known)[cell]}; it came with the code, in {place}"
    if others := [each for each in known.cells[cell].values() if each.key != line.key]:
        values = ", ".join(_value(each.record) for each in others)
        told += f", one of {len(others) + 1} lines (the others: {values})"
    return Found(
        replace(line.record, cell=planned.cell.json),
        line.curves,
        f"{planned.command} --fresh",
        told,
    )


def show(found: Found) -> None:
    """A record for a reader: what was run, where, what came out, how to make it again."""
    out, record = screen(), found.record
    cell, origin = record.cell, record.provenance
    out.print(Text(record.id, "bold"))
    out.print(
        f"{cell['method']} version {cell['version']}, seed {cell['seed']}: {record.status}"
        f" {record.reason}"
    )
    if found.note:
        out.print(found.note, soft_wrap=True)
    for title, values in (("hyper-parameters", cell["hp"]), ("recipe", cell["recipe"])):
        _leaves(out, title, flatten(values, ""))
    if record.metrics:
        round_ = record.metrics["round"]
        result = f"{_value(record)} at round {round_}{_floor(record)}"
        out.print(_titled("result", f"  {result}"))
        _curves(out, found)
    kept = {name: value for name, value in origin.items() if name not in ("traceback", "command")}
    if isinstance(memory := kept.get("peak_memory"), int):
        kept["peak_memory"] = f"{memory / 2**20:,.0f} MiB"
    _leaves(out, "provenance", flatten(kept, ""))
    if "traceback" in origin:
        out.print(_titled("traceback", f"\n{origin['traceback']}"))
    if found.again:
        out.print(_titled("again", f"  {found.again}"), soft_wrap=True)
        if origin.get("dirty"):
            out.print(
                "       the files differed from that commit when this was computed, so it may not"
                " give the same number"
            )


def _titled(title: str, rest: str) -> Text:
    return Text.assemble("\n", (title, "bold"), rest)


def _value(record: Record) -> str:
    value = record.metrics.get("value")
    return "-" if value is None else f"{100 * value:.2f} %"


def _floor(found: Record) -> str:
    """What predicting every client's most frequent class would give."""
    floor = found.metrics.get("floor", {}).get(
        "pooled" if found.cell["recipe"]["evaluation"]["average"] == "pooled" else "clients"
    )
    return f", floor {100 * floor:.2f} %" if isinstance(floor, int | float) else ""


def _leaves(out: Console, title: str, values: Mapping[str, Any]) -> None:
    out.print(_titled(title, "" if values else "  none of its own"))
    rows = grid("", "")
    rows.show_header = False
    for name, value in values.items():
        rows.add_row(f"  {name}", str(value))
    out.print(rows)


def _curves(out: Console, found: Found) -> None:
    """Means over clients by round, and the curve that the result is from."""
    result = "/".join(judged(found.record.cell["recipe"]["evaluation"]))
    for name in sorted({name for name in found.curves if name.endswith("/mean") or name == result}):
        values = found.curves[name].values.tolist()
        out.print(
            f"  {name:20} {sparkline(values)}  {values[0]:.3f} -> {values[-1]:.3f}, best"
            f" {max(values):.3f}"
        )


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """A curve in one line of text, between its own least and greatest value."""
    step = max(1, -(-len(values) // width))
    shown = [max(values[start : start + step]) for start in range(0, len(values), step)]
    low, high = min(shown), max(shown)
    if high <= low:
        return SPARKS[3] * len(shown)
    return "".join(
        SPARKS[min(len(SPARKS) - 1, int((value - low) / (high - low) * len(SPARKS)))]
        for value in shown
    )
