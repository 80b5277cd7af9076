"""What commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from repfl.bench.errors import FINDING, FINE
from repfl.bench.grid.plan import Planned
from repfl.bench.run.cost import duration, in_words
from repfl.datasets.core.paths import real_path

if TYPE_CHECKING:
    from repfl.bench.check.verify import Verification
    from repfl.bench.cli.doctor import Finding
    from repfl.bench.evidence.collect import Collected
    from repfl.bench.report.making import Reported
    from repfl.bench.run.runner import Ending
    from repfl.bench.run.task import Options

LONG = 600
"""Seconds of computing from which half the time is worth a hint."""


def console() -> Console:
    """A terminal as wide as it is; a wide page where there is none."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=140, highlight=False)


def screen() -> Console:
    """The same, for which words in brackets are words: names that users choose come out as they
    are, and cannot break a page.
    """
    found = console()
    return Console(
        width=None if found.is_terminal else found.width, highlight=False, markup=False, emoji=False
    )


def grid(*columns: str, right: Iterable[int] = ()) -> Table:
    """A table without lines, with these headings."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in set(right) else "left")
    return table


# -- plan and run ----------------------------------------------------------------------------------


def plan(facts: Mapping[str, Any], stale: bool = False) -> None:
    """Print the plan: one line per artefact, the cheapest first, then totals over distinct cells,
    then why cells are missing; on demand, every stale cell.
    """
    out = screen()
    by_artefact: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in facts["cells"]:
        by_artefact.setdefault(line["artefact"], {})[line["id"]] = line
    names = [
        status
        for status in ("done", "missing", "running", "failed", "diverged", "skipped")
        if status in facts["statuses"]
    ]
    rows = grid("artefact", "cells", *names, "to compute", right=range(1, len(names) + 3))
    costs = {
        artefact: sum(
            line["seconds"] for line in cells.values() if line["status"] in ("missing", "failed")
        )
        for artefact, cells in by_artefact.items()
    }
    for artefact in sorted(costs, key=costs.__getitem__):
        cells, seconds = by_artefact[artefact], costs[artefact]
        counts = Counter(line["status"] for line in cells.values())
        rows.add_row(
            artefact,
            str(len(cells)),
            *(str(counts[name]) for name in names),
            duration(seconds) if seconds else "-",
        )
    rows.add_section()
    totals = [str(facts["statuses"].get(name, 0)) for name in names]
    rows.add_row(
        "distinct cells",
        str(facts["distinct"]),
        *totals,
        duration(facts["seconds"]) if facts["seconds"] else "-",
        style="bold",
    )
    out.print(rows)
    for reason, count in sorted(facts["reasons"].items(), key=lambda pair: -pair[1]):
        out.print(f"{count} to compute: {reason}")
    if stale:
        _stale(out, facts["cells"])
    elif facts["stale"]:
        values = "value is" if facts["stale"] == 1 else "values are"
        out.print(
            f"{facts['stale']} {values} stale: `repfl plan --stale` says why, `repfl run --stale`"
            " computes them again"
        )
    if facts["seconds"]:
        out.print(in_words(facts["forecast"]), soft_wrap=True)
    if facts["half"] and facts["seconds"] > LONG:
        out.print(
            "this processor computes bfloat16: `--precision bf16 --results FOLDER` may be quicker;"
            " its numbers are kept apart (bench/SPEED.md)",
            soft_wrap=True,
        )


def _stale(out: Console, cells: Iterable[Mapping[str, Any]]) -> None:
    """Every stale cell once, under its reason."""
    reasons: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in cells:
        reasons.setdefault(f"{line['method']}: {line['stale']}", {})[line["id"]] = line
    for reason, lines in sorted(reasons.items()):
        out.print(f"\n{reason}", soft_wrap=True)
        for line in lines.values():
            place = f"{line['artefact']}, {line['row']}, {line['column']}, seed {line['seed']}"
            out.print(f"    {line['id'][:12]} {place}: {duration(line['seconds'])}", soft_wrap=True)
    if not reasons:
        out.print("no value is stale: all are of today's versions")


def summary(found: Ending, planned: Sequence[Planned], options: Options) -> None:
    """How a run ended, and what to do about what did not."""
    from repfl.bench.cli.options import again
    from repfl.bench.store import versions
    from repfl.bench.store.store import Store

    out = screen()
    counts = Counter(outcome.status for outcome in found.outcomes)
    names = {"done": "computed", "cached": "there already"}
    text = ", ".join(f"{count} {names.get(status, status)}" for status, count in counts.items())
    out.print(f"{text or 'nothing to do'}; records in {options.results}")
    commands = {item.cell.id: item for item in planned}
    for outcome in found.of("failed", "diverged"):
        item = commands[outcome.id]
        out.print(
            f"{outcome.status}: {item.cell}: {outcome.reason}\n    repeat: {item.command} --fresh"
            f" --executor inline{again(options.plugins, Store(options.results))}",
            soft_wrap=True,
        )
    standing = (versions.of_record(each.provenance, each.cell) for each in found.there)
    if stale := sum(not each.current for each in standing):
        out.print(
            f"made by other versions or with other data than today's: {stale};"
            " `repfl plan --stale` says which, `repfl run --stale` computes them again",
            soft_wrap=True,
        )
    for reason, count in Counter(outcome.reason for outcome in found.of("refused")).items():
        out.print(f"not run: {count} cells: {reason}")
    if found.signal:
        out.print(
            "stopped by a signal; finished cells are stored, the others go on from their checkpoint"
            " next time"
        )


def report(found: Reported) -> None:
    """What was made, what went wrong, and where the page is."""
    from repfl.bench.report import text

    out = screen()
    text.show(found.sheets, out)
    for problem in found.problems:
        out.print(f"problem: {problem}", soft_wrap=True)
    out.print(f"\nreport: {real_path(found.page)}", soft_wrap=True)


def collected(found: Collected) -> int:
    """Which measured files were written; a run that contradicts a line is a finding."""
    for path, added, kept in found.files:
        print(f"{path}: {added} line{'s' if added != 1 else ''} added, {kept} kept")
    for line in found.conflicts:
        print(f"finding: {line}")
    if found.half:
        print(f"{found.half} records of bfloat16 are left out: measured values are of float32")
    for method, count in sorted(found.beside.items()):
        print(f"{count} records of {method} are of no row of this grid: name it with --method")
    if not found.files:
        print("no finished cells to collect")
    return FINDING if found.conflicts else FINE


# -- what there is ---------------------------------------------------------------------------------


def methods(facts: Sequence[Mapping[str, Any]]) -> None:
    rows = grid("method", "family", "year", "version", "needs", "paper", right=(2, 3))
    for each in facts:
        rows.add_row(
            each["name"],
            each["family"],
            str(each["year"]),
            str(each["version"]),
            " ".join(each["needs"]),
            each["paper"],
        )
    screen().print(rows)


def method(facts: Mapping[str, Any]) -> None:
    """One method: rule, hyper-parameters, traffic."""
    out = screen()
    known = f"{facts['title']} ({facts['family']}, {facts['year']}, version {facts['version']})"
    out.print(Text.assemble((facts["name"], "bold"), ": ", known))
    out.print(f"{facts['paper']}\n\n{facts['rule']}\n")
    if facts["hyperparameters"]:
        rows = grid("hyper-parameter", "default", "papers", "valid", "meaning")
        for hp in facts["hyperparameters"]:
            rows.add_row(
                hp["name"], _plain(hp["default"]), _plain(hp["paper"]), hp["valid"], hp["meaning"]
            )
        out.print(rows)
    else:
        out.print("no hyper-parameters of its own")
    out.print(f"\nsends: {facts['sends']}")
    if facts["needs"]:
        out.print(f"needs: {', '.join(facts['needs'])}")
    if facts["variants"]:
        out.print(f"variants: {'; '.join(facts['variants'])}")


def _plain(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def datasets(facts: Sequence[Mapping[str, Any]]) -> None:
    rows = grid("dataset", "here", "classes", "shape", "splits", "licence", right=(2,))
    for each in facts:
        splits = " ".join(f"{name} {size:,}" for name, size in each["splits"].items())
        shape = "x".join(map(str, each["shape"]))
        rows.add_row(
            each["name"],
            "yes" if each["present"] else "no",
            str(len(each["classes"])),
            shape,
            splits,
            each["licence"],
        )
    screen().print(rows)


def models(facts: Sequence[Mapping[str, Any]]) -> None:
    rows = grid("model", "input", "classes", "parameters", "statistics", right=(2, 3, 4))
    for each in facts:
        shape = "x".join(map(str, each["input"]))
        rows.add_row(
            each["name"],
            shape or Text(each["note"]),
            str(each["classes"]),
            f"{each['parameters']:,}",
            f"{each['statistics']:,}",
        )
    screen().print(rows)


def partitions(facts: Sequence[Mapping[str, Any]]) -> None:
    rows = grid("rule", "options", "how samples are dealt")
    for each in facts:
        options = ", ".join(
            option["name"]
            if option["default"] is None
            else f"{option['name']} = {option['default']}"
            for option in each["options"]
        )
        rows.add_row(each["name"], Text(options), Text(" ".join(each["rule"].split())))
    screen().print(rows)


def recipes(facts: Sequence[Mapping[str, Any]]) -> None:
    rows = grid(
        "recipe", "scale", "dataset", "model", "clients", "partition", "rounds", right=(4, 6)
    )
    for each in facts:
        options = ", ".join(f"{name} = {value}" for name, value in each["options"].items())
        rows.add_row(
            *(Text(str(each[name])) for name in ("name", "scale", "dataset", "model", "clients")),
            Text(f"{each['partition']} {options}".strip()),
            str(each["rounds"]),
        )
    screen().print(rows)


def artefacts(facts: Sequence[Mapping[str, Any]]) -> None:
    scales = list(facts[0]["scales"]) if facts else []
    rows = grid("artefact", "kind", *scales, "title", right=range(2, 2 + len(scales)))
    for each in facts:
        counts = [
            f"{count['done']} / {count['measured']} / {count['cells']}"
            for count in each["scales"].values()
        ]
        rows.add_row(f"{each['paper']}/{each['name']}", each["kind"], *counts, each["title"])
    out = screen()
    out.print(rows)
    out.print("per scale: done here / measured, with the code / cells")


# -- trust -----------------------------------------------------------------------------------------


def findings(found: Verification) -> int:
    """What `verify` found; anything is exit code 1."""
    for line in found.findings:
        print(f"finding: {line}")
    for line in found.notes:
        print(f"note: {line}")
    again = f", {found.rerun} computed again" if found.rerun else ""
    print(
        f"{found.records} records checked{again}: {len(found.findings) or 'no'}"
        f" finding{'s' if len(found.findings) != 1 else ''}"
    )
    return FINDING if found.findings else FINE


def diagnosis(found: Sequence[Finding]) -> None:
    for finding in found:
        print(f"{finding.level:5} {finding.what}{': ' + finding.advice if finding.advice else ''}")


def accepted(path: Path) -> int:
    print(f"reference written: {path}")
    return FINE
