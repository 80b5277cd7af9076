"""What commands print: tables, a plan, the end of a run."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    from rich.status import Status

    from repfl.bench.grid.planned import Planned
    from repfl.bench.report.build import WrittenReport
    from repfl.bench.run.runner import Ending
    from repfl.bench.run.task import Options

Recommend = Callable[..., str]
"""Given the name of a command and flags, the command for the same cells."""

MEMORY_WORTH_MENTIONING = 4 << 30
"""Bytes: a plan mentions cells that need more."""


def screen() -> Console:
    """Return a terminal as wide as it is, or a wide page if there is none: 140 columns, or more if
    COLUMNS says so. Words in brackets are printed as they are: users choose names.
    """
    columns = os.environ.get("COLUMNS", "")
    width = None if Console().is_terminal else max(140, int(columns) if columns.isdecimal() else 0)
    return Console(width=width, highlight=False, markup=False, emoji=False)


def waiting(text: str) -> Status:
    """Return a context manager that shows a terminal that something takes its time."""
    return Console(stderr=True).status(f"{text} ...")


NUMBER = re.compile(r"[+-\N{MINUS SIGN}]?\d[\d.,]*( [%\w]+)?|[-\N{EN DASH}]?")


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), *, total: bool = False
) -> Table:
    """Return a table without lines, of all columns if none are named; those of numbers, with or
    without a unit, are aligned right. With a `total` the last row stands apart.
    """
    shown = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    columns = columns or list(rows[0] if rows else ())
    texts = [[str(row[name]) for row in rows] for name in columns]
    for name, cells in zip(columns, texts, strict=True):
        numbers = any(cells) and all(map(NUMBER.fullmatch, cells))
        shown.add_column(name, justify="right" if numbers else "left")
    for number, line in enumerate(zip(*texts, strict=True), start=1):
        last = total and number == len(rows)
        if last:
            shown.add_section()
        shown.add_row(*map(Text, line), style="bold" if last else None)
    return shown


def leaves(out: Console, title: str, values: Mapping[str, Any]) -> None:
    """Print a title and one line per value, nested ones under dotted names."""
    from repfl.bench.grid.dotted_names import dotted

    out.print(titled(title, "" if values else "  none of its own"))
    lines = Table.grid(padding=(0, 2, 0, 0))
    for name, value in dotted(values).items():
        lines.add_row(f"  {name}", str(value))
    out.print(lines)


def titled(title: str, rest: str) -> Text:
    return Text.assemble("\n", (title, "bold"), rest)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def complain(problems: Iterable[str]) -> None:
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)


# -- plan and run ----------------------------------------------------------------------------------


STATUSES = ("done", "missing", "running", "failed", "diverged", "skipped")


def show_plan(facts: Mapping[str, Any], recommend: Recommend) -> None:
    """Print the plan: one line per artefact, the cheapest first, then totals over distinct cells,
    then why cells are missing.
    """
    out = screen()
    if not facts["cells"]:
        out.print("no cells: this part, or what is left of this selection, is empty")
        return
    by_artefact: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in facts["cells"]:
        by_artefact.setdefault(line["artefact"], {})[line["id"]] = line
    parts = [(artefact, _to_compute(cells), cells) for artefact, cells in by_artefact.items()]
    parts.sort(key=itemgetter(1))
    parts.append(
        ("distinct cells", facts["seconds"], {line["id"]: line for line in facts["cells"]})
    )
    rows = [_plan_row(*part) for part in parts]
    columns = [name for name in rows[-1] if name in UNCOUNTED or rows[-1][name]]
    out.print(table(rows, columns, total=True))
    for text in _plan_notes(facts, recommend):
        out.print(text, soft_wrap=True)


UNCOUNTED = ("artefact", "cells", "to compute")
"""Columns that a plan always has; the others count cells, and are left out without any."""


def _to_compute(cells: Mapping[str, Mapping[str, Any]]) -> float:
    from repfl.bench.evidence.plan_status import OPEN

    return sum(line["seconds"] for line in cells.values() if line["status"] in OPEN)


def _plan_row(
    artefact: str, seconds: float, cells: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return one line of a plan."""
    from repfl.bench.run.cost import duration

    counts = Counter(line["status"] for line in cells.values())
    return {
        "artefact": artefact,
        "cells": len(cells),
        **{status: counts[status] for status in STATUSES},
        "committed": sum(line["committed"] for line in cells.values()),
        "to compute": duration(seconds) if seconds else "-",
    }


def _plan_notes(facts: Mapping[str, Any], recommend: Recommend) -> Iterator[str]:
    """Yield why cells are missing, which have a committed run or are stale, and what the rest
    costs.
    """
    from repfl.bench.run.cost import duration

    for reason, count in sorted(facts["reasons"].items(), key=lambda pair: -pair[1]):
        yield f"{count} to compute: {reason}"
    skipped = {line["id"]: line["reason"] for line in facts["cells"] if line["status"] == "skipped"}
    for reason, count in Counter(skipped.values()).most_common():
        yield f"{count} skipped: {reason}"
    if facts["committed"] and facts["seconds"]:
        have = "has" if facts["committed"] == 1 else "have"
        seconds = facts["uncommitted_seconds"]
        rest = f"; the rest: `{recommend('run', '--unmeasured')}`, {duration(seconds)}"
        yield f"{facts['committed']} already {have} a committed run{rest if seconds else ''}"
    if facts["stale"]:
        values = "value is" if facts["stale"] == 1 else "values are"
        yield (
            f"{facts['stale']} {values} stale: `{recommend('plan', '--stale')}` says why,"
            f" `{recommend('run', '--stale')}` computes them again"
        )
    if facts["seconds"]:
        yield _forecast(**facts["forecast"])


def _forecast(
    cells: int, cpu: Mapping[str, float], cuda: Mapping[str, float], memory: float
) -> str:
    """Return a forecast in words."""
    from repfl.bench.run import machine
    from repfl.bench.run.cost import Cost, between
    from repfl.bench.run.memory import in_words

    def time(forecast: Mapping[str, float]) -> str:
        return between(Cost(forecast["seconds"], forecast["low"], forecast["high"]))

    basis = "at the speed of a reference machine; runs here will correct it"
    if cpu["measured"]:
        basis = f"cells of a model timed on this machine: {cpu['measured']:,}"
    text = f"{cells:,} cell{'s' * (cells != 1)} to compute: about"
    text += f" {time(cpu)} of one CPU worker ({basis})"
    if memory > MEMORY_WORTH_MENTIONING:
        lacks = memory > machine.memory_bytes("cpu")[1]
        more = ", which is more than this machine has" if lacks else ""
        text += f"; up to {in_words(memory)} of memory for one of them{more}"
    if not cuda["measured"]:
        return f"{text}; GPU time unknown: these models have not run on a GPU here"
    return f"{text}; about {time(cuda)} of one GPU for the {cuda['measured']:,} measured there"


def show_stale(facts: Mapping[str, Any]) -> None:
    """Print every stale cell once, under its reason."""
    from repfl.bench.run.cost import duration

    out = screen()
    reasons: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in facts["cells"]:
        reasons.setdefault(f"{line['method']}: {line['stale']}", {})[line["id"]] = line
    for reason, lines in sorted(reasons.items()):
        out.print(f"\n{reason}", soft_wrap=True)
        for line in lines.values():
            label = f"{line['artefact']}, {line['row']}, {line['column']}, seed {line['seed']}"
            out.print(f"    {line['id'][:12]} {label}: {duration(line['seconds'])}", soft_wrap=True)
    if not reasons:
        out.print("no value of this scale is stale; --scale smoke, desk or paper selects it")


def show_ending(
    ending: Ending, planned: Sequence[Planned], options: Options, recommend: Recommend, again: str
) -> None:
    """Print how a run ended, and what to do about what did not. `again` are the options by which
    a command finds the same plug-ins and records.
    """
    from repfl.bench.store import versions

    out = screen()
    counts = Counter(outcome.status for outcome in ending.outcomes)
    names = {"done": "computed", "cached": "there already"}
    text = ", ".join(f"{count} {names.get(status, status)}" for status, count in counts.items())
    nothing = "stopped before a cell ended" if ending.signal else "nothing to do"
    out.print(f"{text or nothing}; records in {options.results}", soft_wrap=True)
    commands = {item.cell.id: item for item in planned}
    for outcome in ending.of("failed", "diverged"):
        item = commands[outcome.id]
        details = f"    record and traceback: repfl show {item.cell.short}{again}\n"
        out.print(
            f"{outcome.status}: {item.cell}: {outcome.reason}\n{details * outcome.is_stored}"
            f"    repeat: {item.command} --fresh --executor inline{again}",
            soft_wrap=True,
        )
    stale: defaultdict[str, list[str]] = defaultdict(list)
    for record in ending.stored:
        currency = versions.of_record(record.origin, record.cell)
        if not currency.current:
            stale[currency.reason].append(record.cell["method"])
    for change, methods in stale.items():
        of = ", ".join(sorted(set(methods)))
        out.print(f"stale, not computed again: {len(methods)} of {of}: {change}", soft_wrap=True)
    if stale:
        out.print(f"    to compute again: {recommend('run', '--stale')}", soft_wrap=True)
    for reason, count in Counter(outcome.reason for outcome in ending.of("refused")).items():
        out.print(f"not run: {count} cell{'s' * (count != 1)}: {reason}", soft_wrap=True)
    if ending.signal:
        out.print(
            "stopped by a signal; finished cells are stored, the others go on from their checkpoint"
            " next time"
        )


def show_report(report: WrittenReport) -> None:
    """Print the tables, what went wrong, and where the page is."""
    from repfl.bench.report.formats import terminal

    out = screen()
    terminal.show(report.sheets, out)
    for problem in report.problems:
        out.print(f"problem: {problem}", soft_wrap=True)
    out.print(f"\nreport: {real_path(report.page)}", soft_wrap=True)
