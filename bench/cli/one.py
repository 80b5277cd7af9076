"""One stored record for a reader: what was run, where, what came out, how to make it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from bench.cli.show import console, grid
from bench.errors import UserError, nearest
from bench.records.store import Record, Store

SPARKS = "▁▂▃▄▅▆▇█"


def find(store: Store, prefix: str) -> Record:
    """The one record whose id starts so."""
    ids = store.ids()
    found = [cell for cell in ids if cell.startswith(prefix)]
    if not found:
        hint = nearest(prefix, [cell[:12] for cell in ids]) if ids else "it is empty"
        hint = hint if len(hint) < 200 else "`repfl plan --json` lists ids"
        raise UserError(f"no record in {store.root} has an id that starts with {prefix!r}; {hint}")
    if len(found) > 1:
        some = ", ".join(cell[:12] for cell in found[:5])
        raise UserError(f"{len(found)} records in {store.root} have ids that start with {prefix!r}: {some}")
    record = store.get(found[0])
    assert record is not None  # its file was there a moment ago
    return record


def show(store: Store, found: Record) -> None:
    """A record for a reader: what was run, where, what came out, how to make it again."""
    from bench.evidence.library import flatten

    out, cell, origin = console(), found.cell, found.provenance
    out.print(
        f"[bold]{found.id}[/]\n{cell['method']} version {cell['version']}, seed {cell['seed']}: {found.status} {escape(found.reason)}"
    )
    for title, values in (("hyper-parameters", cell["hp"]), ("recipe", cell["recipe"])):
        _leaves(out, title, flatten(values, ""))
    if found.metrics:
        value = found.metrics["value"]
        out.print(f"\n[bold]result[/]  {'-' if value is None else f'{100 * value:.2f} %'} at round {found.metrics['round']}{_floor(found)}")
        _curves(out, store, found)
    kept = {name: value for name, value in origin.items() if name not in ("traceback", "command")}
    if isinstance(memory := kept.get("peak_memory"), int):
        kept["peak_memory"] = f"{memory / 2**20:,.0f} MiB"
    _leaves(out, "provenance", flatten(kept, ""))
    if "traceback" in origin:
        out.print(f"\n[bold]traceback[/]\n{escape(origin['traceback'])}")
    if origin.get("command"):
        at = f"git checkout {origin['commit']} && " if origin.get("commit") else ""
        out.print(f"\n[bold]again[/]  {at}{escape(origin['command'])} --fresh", soft_wrap=True)
        if origin.get("dirty"):
            out.print("       the files differed from that commit when this was computed, so it may not give the same number")


def _floor(found: Record) -> str:
    """What predicting every client's most frequent class would give."""
    floor = found.metrics.get("floor", {}).get("pooled" if found.cell["recipe"]["evaluation"]["average"] == "pooled" else "clients")
    return f", floor {100 * floor:.2f} %" if isinstance(floor, int | float) else ""


def _leaves(out: Console, title: str, values: Mapping[str, Any]) -> None:
    out.print(f"\n[bold]{title}[/]{'' if values else '  none of its own'}")
    rows = grid("", "")
    rows.show_header = False
    for name, value in values.items():
        rows.add_row(f"  {name}", escape(str(value)))
    out.print(rows)


def _curves(out: Console, store: Store, found: Record) -> None:
    frame = store.frame(found, "rounds.parquet")
    if frame is None:
        return
    for name in sorted({name for name in frame["name"] if name.endswith("/mean")}):
        values = frame[frame["name"] == name].sort_values("round")["value"].tolist()
        out.print(f"  {name:20} {sparkline(values)}  {values[0]:.3f} -> {values[-1]:.3f}, best {max(values):.3f}")


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """A curve in one line of text, between its own least and greatest value."""
    step = max(1, -(-len(values) // width))
    shown = [max(values[start : start + step]) for start in range(0, len(values), step)]
    low, high = min(shown), max(shown)
    if high <= low:
        return SPARKS[3] * len(shown)
    return "".join(SPARKS[min(len(SPARKS) - 1, int((value - low) / (high - low) * len(SPARKS)))] for value in shown)
