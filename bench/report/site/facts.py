"""Facts around the tables of a report: papers, methods, data sets, coverage, the self-test, and the
origin of the runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from repfl.bench.grid import grid as grids
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.report.site import holdings
from repfl.bench.store import provenance
from repfl.bench.store.store import Store
from repfl.datasets.core import registry
from repfl.datasets.core.recipe import Recipe


def of_paper(item: Planned, planned: Sequence[Planned], runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the grid says of a paper, its notes, and how much of it has been measured."""
    grid = grids.read(item.file or grids.files()[item.paper])
    facts = {name: getattr(grid.file, name) for name in ("title", "year", "sources", "about")}
    notes = grid.path.with_name("README.md")
    return facts | {
        "notes": "" if item.file or not notes.is_file() else notes.read_text("utf-8"),
        "coverage": [_coverage(scale, planned, runs) for scale in _scales(planned)],
    }


def _scales(planned: Sequence[Planned]) -> list[str]:
    return sorted({item.scale for item in planned}, key=grids.SCALES.index, reverse=True)


def _coverage(scale: str, planned: Sequence[Planned], runs: Mapping[str, Any]) -> dict[str, Any]:
    """Count the cells of one scale that have a run, and what the runs cost."""
    cells = [item.cell.id for item in unique(i for i in planned if i.scale == scale)]
    done = [runs[cell] for cell in cells if cell in runs]
    return {
        "scale": scale,
        "cells": len(cells),
        "done": len(done),
        "hours": sum(run["seconds"] or 0.0 for run in done) / 3600,
        "devices": ", ".join(sorted({str(run["device"]) for run in done})),
        "last": max((str(run["finished"])[:10] for run in done), default=""),
    }


def missing_cells(
    planned: Sequence[Planned], runs: Mapping[str, Any], again: str
) -> dict[str, dict[str, Any]]:
    """Return, by paper, the cells of its own scale that have no run."""
    from repfl.bench.run import cost

    by_paper = {}
    for paper in dict.fromkeys(item.paper for item in planned):
        items = unique(i for i in planned if i.paper == paper and i.scale == "paper" and not i.skip)
        missing = [item for item in items if item.cell.id not in runs]
        by_paper[paper] = {
            "cells": len(items),
            "missing": len(missing),
            "seconds": sum(map(cost.static, missing)),
            "command": f"repfl run --scale paper --paper {paper}{again}",
        }
    return by_paper


def self_test(planned: Sequence[Planned], store: Store) -> dict[str, Any]:
    """Return the self-test: the outcome of every smoke cell, and the lines that were refused."""
    from repfl.bench.evidence.cell_evidence import CellEvidence, Records
    from repfl.bench.evidence.committed import committed_runs
    from repfl.bench.report import run_details

    records = Records(store)
    runs: dict[str, Any] = {}
    problems: list[str] = []
    for paper in dict.fromkeys(item.paper for item in planned):
        items = [item for item in planned if item.paper == paper]
        measured = committed_runs.read(paper, items[0].scale)
        problems += measured.problems
        runs |= run_details.outcomes(items, CellEvidence(records, measured))
    problems += records.problems
    return {
        "table": run_details.outcome_table(planned, runs) if planned else {},
        "problems": problems,
    }


def of_method(name: str) -> dict[str, Any]:
    """Return what the registry says of a method; if it is not registered, its name."""
    from repfl.bench.grid import catalog
    from repfl.bench.grid.methods import find_entry

    return catalog.method_facts(name) if find_entry(name) else {"name": name}


SIDES = {
    "images": "pixels and channels", "signals": "channels and time steps", "features": "features",
    "tokens": "tokens",
}  # fmt: skip
"""What the sizes of a sample count."""


def of_dataset(name: str) -> dict[str, Any]:
    """Return what the registry says of a data set."""
    if name not in registry.names():
        return {"title": name}
    description = registry.get(name)
    return {
        "title": description.title,
        "homepage": description.homepage,
        "licence": description.licence,
        "citation": description.citation,
        "classes": len(description.classes),
        "shape": f"{' × '.join(map(str, description.sample_shape))} {SIDES[description.kind]}",
        "splits": {split: f"{size:,}" for split, size in description.splits.items()},
        "megabytes": round(description.size / 1e6),
        "command": "" if description.embedded else f"repfl data get {name}",
    }


def splits(planned: Sequence[Planned]) -> dict[str, list[dict[str, Any]]]:
    """Return, by data set, how the papers split it among clients: a line per recipe of the largest
    scale, with what the clients hold. `like` names an earlier line whose clients have the same
    shares of classes, and so the same picture.
    """
    largest: dict[tuple[str, str], Planned] = {}
    for item in planned:
        key, rank = (item.paper, item.column), grids.SCALES.index(item.scale)
        if key not in largest or rank > grids.SCALES.index(largest[key].scale):
            largest[key] = item
    lines: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    drawn: dict[tuple[str, str, bytes], str] = {}
    for item in largest.values():
        recipe = item.cell.recipe
        line = {
            "paper": item.paper,
            "recipe": item.column,
            "scale": item.scale,
            "rule": recipe.partition.rule,
            "options": _chosen(recipe),
            "clients": recipe.clients,
            "participation": f"{100 * recipe.participation:g} %",
        }
        same = tuple(value for name, value in line.items() if name != "recipe")
        if same not in (known := lines.setdefault(recipe.dataset, {})):
            known[same] = line | _held(item, drawn)
    return {name: list(each.values()) for name, each in lines.items()}


def _held(item: Planned, drawn: dict[tuple[str, str, bytes], str]) -> dict[str, Any]:
    """Return what the clients of a recipe hold; `drawn` is completed."""
    recipe, label, like = item.cell.recipe, item.column_label, ""
    if held := holdings.holdings(recipe, item.cell.seed):
        key = (item.paper, recipe.dataset, held.shares.round(6).tobytes())
        like = drawn.setdefault(key, label)
    told = holdings.sentences(recipe, held, item.cell.seed) if held else ""
    return {"label": label, "held": held, "told": told, "like": like if like != label else ""}


def _chosen(recipe: Recipe) -> str:
    """Return the options of a recipe's partition that matter; a list by its length."""
    partition = recipe.partition
    seed = "each run's own" if partition.seed is None else partition.seed
    options = {**partition.options, "val_share": partition.val_share, "seed": seed}
    if not registry.get(recipe.dataset).groups:
        options.pop("severity", None)
    return ", ".join(
        f"{name} = {f'a list of {len(value)}' if isinstance(value, list | tuple) else value}"
        for name, value in options.items()
        if value is not None
    )


def origins(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the origin of the runs of a report, each value once."""
    commit = provenance.commit()["commit"] or "unknown"
    here = sum(run["from"] == "computed here" for run in runs.values())
    facts = {
        "report made at commit": commit[:12],
        "runs computed here": str(here),
        "committed runs": str(len(runs) - here),
    }
    for name in ("commit", "device", "torch", "contributor"):
        values = {str(run[name])[:60] for run in runs.values() if run[name]}
        shown = {value[:12] for value in values} if name == "commit" else values
        facts[f"{name} of the runs"] = ", ".join(sorted(shown))
    return {name: value for name, value in facts.items() if value}


DOCUMENTS = {"findings": "RESULTS.md", "questions": "QUESTIONS.md"}


def documents(planned: Sequence[Planned]) -> dict[str, str]:
    """Return the texts about all papers, for a report of all of them."""
    whole = {item.paper for item in planned} >= set(grids.printed(grids.ROOT))
    files = {name: grids.ROOT / file for name, file in DOCUMENTS.items() if whole}
    return {name: file.read_text("utf-8") for name, file in files.items() if file.is_file()}


def repository() -> str:
    """Return the web address of the repository: what CI or git says, or nothing."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    command = ["git", "-C", str(grids.ROOT), "remote", "get-url", "origin"]
    try:
        url = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return url.removesuffix(".git") if url.startswith("https://") and "@" not in url else ""
