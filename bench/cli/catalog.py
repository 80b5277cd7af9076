"""`repfl list KIND` and `repfl info NAME`: what there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from repfl.bench.cli.options import AsJson, Grids, PaperScale, Plugins, Results
from repfl.bench.cli.printing import leaves, print_json, screen, table
from repfl.bench.errors import UserError, nearest, unknown
from repfl.datasets.core.errors import registered

Facts = Mapping[str, Any]


def list_kind(
    kind: Annotated[
        str,
        typer.Argument(
            help="papers, methods, datasets, partitions, models, recipes, artefacts (tables and"
            " figures), claims, or runs (those in the results folder)"
        ),
    ],
    scale: PaperScale = "paper",
    grid: Grids = None,
    plugin: Plugins = None,
    results: Results = None,
    as_json: AsJson = False,
) -> int:
    """List everything of a kind. `--scale` is about recipes, `--results` about artefacts and runs,
    `--grid` about recipes and artefacts.
    """
    facts = _facts(kind, scale, grid or (), plugin or (), results)
    if as_json:
        print_json(facts)
        return 0
    short: dict[str, Callable[[Facts], Facts]] = {"artefacts": _with_counts, "runs": _abridged}
    shown = (short.get(kind, dict)(each) for each in facts)
    rows = [{name: _as_text(each[name]) for name in COLUMNS[kind]} for each in shown]
    screen().print(table(rows, COLUMNS[kind]))
    if kind == "artefacts":
        print("per scale: done here / committed with the code / cells")
    if kind == "runs":
        print("`repfl show RUN` shows one; deleting the folder of this name removes it")
    return 0


def _facts(
    kind: str, scale: str, grids: Sequence[Path], paths: Sequence[str], results: Path | None
) -> list[dict[str, Any]]:
    from repfl.bench.grid import catalog, plugins
    from repfl.bench.grid.grid import with_named

    if kind not in COLUMNS:
        raise unknown("kind", kind, COLUMNS)
    plugins.load(with_named(paths, grids))
    if kind == "methods":
        return catalog.method_summaries()
    if kind == "models":
        from repfl.algorithms.models import MODELS

        return [catalog.model_facts(name) for name in MODELS]
    if kind == "partitions":
        from repfl.datasets.core.partition import partitioners

        return [catalog.partition_facts(name) for name in partitioners()]
    if kind == "datasets":
        return catalog.all_dataset_facts()
    if kind == "recipes":
        return catalog.all_recipe_facts(scale, grids)
    if kind == "papers":
        return catalog.paper_facts()
    if kind == "claims":
        from repfl.bench.report import show_text

        return show_text.all_claims()
    from repfl.bench.evidence import plan_status
    from repfl.bench.store.store import Store

    store = Store(results)
    return (
        plan_status.run_facts(store) if kind == "runs" else plan_status.artefact_facts(store, grids)
    )


# -- one of them -----------------------------------------------------------------------------------


def info(
    name: Annotated[
        str,
        typer.Argument(
            help="a method, data set, partition rule, model or metric, or PAPER/RECIPE;"
            " `repfl show` has tables, figures and claims"
        ),
    ],
    scale: PaperScale = "paper",
    grid: Grids = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> int:
    """Describe what has this name: of a method its update rule, hyper-parameters and traffic, of a
    recipe all its fields.
    """
    from repfl.bench.grid import catalog, plugins
    from repfl.bench.grid.grid import with_named

    plugins.load(with_named(plugin or (), grid or ()))
    matches = _matches(name, scale, grid or ())
    if not matches and "/" in name:
        hint = nearest(name, catalog.recipes(grid or ()))
        raise UserError(
            f"unknown recipe {name!r}; {hint} (a table, figure or claim: `repfl show {name}`)"
        )
    if not matches:
        raise unknown("name", name, [each for of in plugins.registries().values() for each in of])
    if as_json:
        print_json(dict(matches))
    for kind, facts in () if as_json else matches:
        SHOWN.get(kind, _show_fields)(facts)
    return 0


def _matches(name: str, scale: str, grids: Sequence[Path]) -> list[tuple[str, dict[str, Any]]]:
    """Return everything of this name: its kind and the facts on it."""
    from dataclasses import asdict
    from inspect import getdoc

    from repfl.bench.grid import catalog
    from repfl.bench.grid.methods import find_entry
    from repfl.bench.grid.plugins import registries

    find_entry(name)  # refuses a wrapper around a method that it cannot be around

    def metric_facts(name: str) -> dict[str, Any]:
        metric = known["metric"][name]
        facts = {"title": metric.title, "averaged over": metric.average, "rule": getdoc(metric.of)}
        return {"name": name, **facts}

    known = registries()
    describe: dict[str, Callable[[str], dict[str, Any]]] = {
        "method": catalog.method_facts,
        "dataset": lambda name: catalog.dataset_facts(known["dataset"][name]),
        "model": catalog.model_facts,
        "partition": catalog.partition_facts,
        "metric": metric_facts,
    }
    named = {kind: registered(name, known[kind]) for kind in describe}
    matches = [(kind, describe[kind](n)) for kind, n in named.items() if n in known[kind]]
    name = registered(name, catalog.recipes(grids))
    if name in catalog.recipes(grids):
        _, recipe, _, seed = catalog.find_recipe(name, scale, grids)
        matches.append(("recipe", {"name": name, **asdict(recipe), "first seed": seed}))
    return matches


def _show_method(facts: Facts) -> None:
    """Print a method: rule, hyper-parameters, traffic."""
    from rich.text import Text

    out = screen()
    summary = f"{facts['title']} ({facts['family']}, {facts['year']}, version {facts['version']})"
    out.print(Text.assemble((facts["name"], "bold"), ": ", summary))
    out.print(f"{facts['paper']}\n\n{facts['rule']}\n")
    _show_options("hyper-parameter", facts["hyperparameters"])
    out.print(f"\nsends: {facts['sends']}")
    for row in facts["compared"]:
        what = f" ({row['what']})" if row["what"] else ""
        out.print(f"compared with: {row['code']} at {row['commit']}, to {row['tolerance']}{what}")
    if facts["needs"]:
        out.print(f"needs: {', '.join(facts['needs'])}")
    if facts["variants"]:
        out.print(f"variants: {'; '.join(facts['variants'])}")


def _show_partition(facts: Facts) -> None:
    """Print a partition rule and its options."""
    screen().print(f"partition rule {facts['name']}, version {facts['version']}")
    screen().print(f"\n{facts['rule']}\n")
    _show_options("option", facts["options"])


def _show_options(head: str, options: Sequence[Facts]) -> None:
    rows = [
        {head: each["name"], "default": each["default"], "papers": each["paper"]}
        | {name: each[name] for name in ("valid", "meaning")}
        for each in options
    ]
    rows = [{name: "-" if v is None else v for name, v in row.items()} for row in rows]
    screen().print(table(rows) if rows else f"no {head}s of its own")


def _show_fields(facts: Facts) -> None:
    """Print every fact on a line of its own."""
    values = {
        name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        for name, value in facts.items()
        if name != "name" and value not in ("", None)
    }
    leaves(screen(), str(facts["name"]), values)


SHOWN: dict[str, Callable[[Facts], None]] = {"method": _show_method, "partition": _show_partition}


# -- tables ----------------------------------------------------------------------------------------

COLUMNS = {
    "papers": ("paper", "year", "title", "artefacts"),
    "methods": ("name", "family", "year", "version", "needs", "paper"),
    "datasets": ("name", "title", "present", "splits", "licence"),
    "partitions": ("name", "options", "rule"),
    "models": ("name", "input", "parameters", "statistics", "note"),
    "recipes": ("name", "scale", "dataset", "model", "clients", "partition", "options", "rounds"),
    "artefacts": ("artefact", "kind", "smoke", "desk", "paper", "title"),
    "claims": ("claim", "state", "text"),
    "runs": (
        "run",
        "method",
        "dataset",
        "model",
        "rounds",
        "seed",
        "status",
        "accuracy",
        "finished",
        "note",
    ),
}
"""What is listed, by kind, of the facts on each."""


def _with_counts(facts: Facts) -> Facts:
    """Return the facts on an artefact with its cells per scale in words."""
    counts = {
        scale: f"{count['done']} / {count['committed']} / {count['cells']}"
        for scale, count in facts["scales"].items()
    }
    return {**facts, "artefact": f"{facts['paper']}/{facts['name']}", **counts}


def _abridged(facts: Facts) -> Facts:
    """Return the facts on a run, short enough for a table."""
    accuracy = facts.get("accuracy")
    return {
        **dict.fromkeys(COLUMNS["runs"], ""),
        **facts,
        "run": facts["run"][:12],
        "accuracy": "" if accuracy is None else f"{100 * accuracy:.2f} %",
        "finished": str(facts.get("finished") or "")[:16].replace("T", " "),
    }


def _as_text(value: Any) -> str:
    """Return a fact as a text of one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and "default" in value:  # an option
        has_default = value["default"] is not None
        return f"{value['name']} = {value['default']}" if has_default else str(value["name"])
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_as_text(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_as_text, value))
    large = isinstance(value, int) and value >= MIN_WITH_COMMAS
    return f"{value:,}" if large else " ".join(str(value).split())


MIN_WITH_COMMAS = 10_000
"""Whole numbers from here on are written with commas."""
