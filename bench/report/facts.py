"""Facts that stand around the artefacts of a report: papers, methods, the self-test, and what the
runs were made with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Planned, unique
from repfl.bench.store import provenance
from repfl.bench.store.store import Store


def titled(item: Planned) -> dict[str, Any]:
    """What stands above a paper's artefacts, or above those of a grid of one's own."""
    file = grids.read(item.file or grids.files()[item.paper]).file
    return {name: getattr(file, name) for name in ("title", "year", "sources", "about")}


def still_open(planned: Sequence[Planned], runs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Per paper, what its own scale still lacks."""
    from repfl.bench.run import cost

    found = {}
    for paper in dict.fromkeys(item.paper for item in planned):
        mine = unique(i for i in planned if i.paper == paper and i.scale == "paper" and not i.skip)
        missing = [item for item in mine if item.cell.id not in runs]
        found[paper] = {
            "cells": len(mine),
            "missing": len(missing),
            "seconds": sum(map(cost.static, missing)),
            "command": f"repfl run --scale paper --paper {paper}",
        }
    return found


def tested(planned: Sequence[Planned], store: Store) -> dict[str, Any]:
    """The self-test: what is known of every smoke cell, and what was refused."""
    from repfl.bench.evidence import measured
    from repfl.bench.evidence.library import Known, Library
    from repfl.bench.report import runs

    library = Library(store)
    told: dict[str, Any] = {}
    problems: list[str] = []
    for paper in dict.fromkeys(item.paper for item in planned):
        mine = [item for item in planned if item.paper == paper]
        known = measured.read(paper, mine[0].scale)
        problems += known.problems
        told |= runs.outcomes(mine, Known(library, known))
    problems += library.problems
    return {"table": runs.self_test(planned, told) if planned else {}, "problems": problems}


def of_method(name: str) -> dict[str, Any]:
    """What the registry says of a method."""
    import inspect

    from repfl.bench.grid.cell import known_entry

    known = known_entry(name)
    if known is None:
        return {"name": name}
    return {
        "name": name,
        "title": known.title,
        "paper": known.paper,
        "year": known.year,
        "family": known.family,
        "sends": known.sends,
        "rule": inspect.cleandoc(known.cls.__doc__ or ""),
        "variants": list(known.variants),
    }


def origins(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the runs of a report were made with, each value once."""
    own = provenance.commit()["commit"] or "unknown"
    here = sum(run["from"] == "computed here" for run in runs.values())
    found = {
        "report made at commit": own[:12],
        "runs computed here": str(here),
        "runs that came with the code": str(len(runs) - here),
    }
    for name in ("commit", "device", "torch", "contributor"):
        values = {str(run[name] or "unknown")[:60] for run in runs.values()}
        shown = {value[:12] for value in values} if name == "commit" else values
        found[name if len(shown) == 1 else f"{name}s"] = ", ".join(sorted(shown))
    return found
