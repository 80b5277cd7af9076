"""Catalogue of methods, models, partition rules, data sets and recipes, as plain data."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from repfl.bench.errors import UserError, one_line, unknown
from repfl.datasets.core.errors import DataError, hyphened

if TYPE_CHECKING:
    from repfl.bench.grid.grid import Grid
    from repfl.datasets.core.cache import Prepared
    from repfl.datasets.core.recipe import Recipe
    from repfl.datasets.core.registry import Dataset

METHOD_FILES = Path(__file__).parents[2] / "algorithms"
SUMMARY = ("family", "year", "version", "needs", "paper", "title")
"""The columns of a list of methods."""


# -- methods ---------------------------------------------------------------------------------------


def method_summaries() -> list[dict[str, Any]]:
    """Return the main facts on every method."""
    from repfl.algorithms.core.method import methods

    return [
        {key: getattr(entry, key) for key in ("name", *SUMMARY)}
        for _, entry in sorted(methods().items())
    ]


def method_facts(name: str) -> dict[str, Any]:
    """Return everything that the registry has on a method."""
    from repfl.bench.grid.methods import entry

    method = entry(name)
    return {
        **{key: getattr(method, key) for key in ("name", "title", "paper", "year", "family")},
        "version": method.version,
        "needs": list(method.needs),
        "sends": method.sends,
        "compared": [row for row in published_code() if row["method"] == name],
        "variants": list(method.variants),
        "rule": inspect.cleandoc(method.cls.__doc__ or ""),
        "hyperparameters": option_facts(method.cls.HP),
        "source": method.cls.__module__,
    }


@cache
def published_code() -> list[dict[str, str]]:
    """Return which method is compared with which published code, by tests/references."""
    with (METHOD_FILES / "references.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def option_facts(cls: Any) -> list[dict[str, Any]]:
    """Return name, default, the papers' values, valid range and meaning of every option of a
    method or of a partition rule.
    """
    from pydantic import TypeAdapter

    from repfl.bench.grid.search import range_text

    properties = TypeAdapter(cls).json_schema().get("properties", {})
    return [
        {
            "name": name,
            "default": field.get("default"),
            "paper": field.get("paper"),
            "search": ", ".join(map(range_text, (field.get("search") or {}).items())),
            "valid": _choices(field) or field.get("type", ""),
            "meaning": field.get("description", ""),
        }
        for name, field in properties.items()
    ]


def recipe_meanings() -> dict[str, str]:
    """Return what every field of a recipe means, by its dotted name."""
    from repfl.datasets.core.recipe import Recipe

    return dict(_meanings(Recipe))


def _meanings(cls: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, info in cls.__pydantic_fields__.items():
        yield f"{prefix}{name}", info.description or ""
        for inner in (info.annotation, *get_args(info.annotation)):
            if hasattr(inner, "__pydantic_fields__"):
                yield from _meanings(inner, f"{prefix}{name}.")


def _choices(field: Mapping[str, Any]) -> str:
    """Return the valid values of a field in words, from its JSON schema; empty if its type is
    enough.
    """
    if "enum" in field or "const" in field:
        return " or ".join(map(repr, field.get("enum", [field.get("const")])))
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {field[key]:.10g}" for key, sign in signs.items() if key in field]
    return " and ".join(limits)


# -- models and partition rules --------------------------------------------------------------------

INPUTS = ((3, 32), (1, 28), (1, 8))
"""Channels and size that a model is described for: CIFAR-10's, MNIST's, the digits'."""
TINY = ("tiny", "tiny-bn")


def model_facts(name: str) -> dict[str, Any]:
    """Return the size of a model at the first input that it takes."""
    from repfl.algorithms import models
    from repfl.algorithms.engine.model import ModelError

    facts: dict[str, Any] = {"name": name, "input": [], "classes": 10, "note": ""}
    for channels, size in INPUTS[-1:] if name in TINY else INPUTS:
        try:
            params = models.build(name, channels=channels, size=size, classes=10).params
        except ModelError as error:
            facts["note"] = facts["note"] or str(error)
            continue
        return facts | {
            "input": [channels, size, size],
            "parameters": params.parameters,
            "statistics": params.size - params.parameters,
            "batch_norm": bool(params.stats.any()),
            "note": "",
        }
    return facts | {"parameters": 0, "statistics": 0, "batch_norm": False}


def partition_facts(name: str) -> dict[str, Any]:
    """Return what a partition rule does, and its options."""
    from repfl.datasets.core.partition import partitioners

    function, options, version, _check = partitioners()[name]
    return {
        "name": name,
        "rule": inspect.cleandoc(function.__doc__ or ""),
        "version": version,
        "options": option_facts(options),
        "source": function.__module__,
    }


# -- data sets -------------------------------------------------------------------------------------


def all_dataset_facts(root: Path | str | None = None) -> list[dict[str, Any]]:
    """Return what is published about every data set, and its state under a data root."""
    from repfl.datasets.core.registry import get, names

    needs = _needed_by()
    return [dataset_facts(get(name), needs.get(name, []), root) for name in names()]


def dataset_facts(
    dataset: Dataset, needed_by: Sequence[str] = (), root: Path | str | None = None
) -> dict[str, Any]:
    """Return what is published about a data set, and its state under a data root."""
    from repfl.datasets.core.cache import how_to_get, open_dataset, prepared_path

    prepared, problem = None, ""
    try:
        prepared = open_dataset(dataset.name, root)
    except DataError as error:
        problem = str(error) if prepared_path(dataset.name, root).exists() else ""
    facts = _published_facts(dataset) | (_prepared_facts(dataset, prepared) if prepared else {})
    return facts | {
        "needed_by": list(needed_by),
        "how": "" if prepared else how_to_get(dataset),
        "note": problem or dataset.manual,
    }


def _published_facts(dataset: Dataset) -> dict[str, Any]:
    """Return what is published about a data set, as if it were not here."""
    return {
        **{key: getattr(dataset, key) for key in ("name", "title", "homepage", "licence")},
        "citation": dataset.citation,
        "classes": list(dataset.classes),
        "shape": list(dataset.shape),
        "splits": dataset.splits,
        "class_counts": {split: list(counts) for split, counts in (dataset.counts or {}).items()},
        "fingerprints": dataset.fingerprints,
        "editions": [edition.name for edition in dataset.editions],
        "edition": None,
        "norms": {name: asdict(norm) for name, norm in dataset.norms.items()},
        "groups": list(dataset.groups),
        "present": False,
        "verified": "absent",
        "bytes": 0,
        "download_bytes": dataset.size,
        "path": None,
    }


def _prepared_facts(dataset: Dataset, prepared: Prepared) -> dict[str, Any]:
    """Return those of the facts that are others if a data set is here."""
    facts = {
        "splits": {split: len(span) for split, span in prepared.splits.items()},
        "fingerprints": prepared.fingerprints,
        "edition": prepared.edition,
        "present": True,
        "verified": _verified(dataset, prepared),
    }
    if (path := prepared.path) is None:
        return facts
    return facts | {"path": str(path), "bytes": path.stat().st_size}


def _verified(dataset: Dataset, prepared: Prepared) -> str:
    """Return how the fingerprints taken when a data set was prepared compare with published ones:
    recorded (nothing is published), published (equal) or different.
    """
    by_edition = {edition.name: edition.fingerprints for edition in dataset.editions}
    published = by_edition.get(prepared.edition)
    if not published:
        return "recorded"
    equal = all(prepared.fingerprints[split] == mark for split, mark in published.items())
    return "published" if equal else "different"


def _needed_by() -> dict[str, list[str]]:
    """Return the papers that use each data set at paper scale."""
    from repfl.bench.grid import grid

    needs: dict[str, list[str]] = {}
    for paper, path in grid.files().items():
        try:
            file = grid.read(path)
            used = {file.recipe(recipe, "paper").dataset for recipe in file.file.recipes}
        except UserError:  # commands that run this grid will say what is wrong with it
            continue
        for name in used:
            needs.setdefault(name, []).append(paper)
    return needs


@lru_cache(maxsize=64)
def why_absent(dataset: str) -> str:
    """Return why a dataset cannot be opened; empty if it can."""
    from repfl.bench.grid import plugins
    from repfl.datasets.core import registry
    from repfl.datasets.core.cache import open_dataset

    if registry.get(dataset).embedded and plugins.origin("dataset", dataset) is None:
        return ""  # in a library without which repfl is not installed
    try:
        open_dataset(dataset)
    except DataError as error:
        return one_line(error)
    return ""


# -- recipes ---------------------------------------------------------------------------------------


def recipes(files: Sequence[Path] = ()) -> dict[str, tuple[Grid, str]]:
    """Return the recipes of the papers' grids and of these files by `paper/recipe`."""
    from repfl.bench.grid import grid

    grids = [grid.read(path) for path in [*grid.files().values(), *files]]
    return {f"{each.paper}/{name}": (each, name) for each in grids for name in each.file.recipes}


def paper_facts() -> list[dict[str, Any]]:
    """Return every paper with its tables and figures."""
    from repfl.bench.grid import grid

    read = {paper: grid.read(path).file for paper, path in grid.files().items()}
    return [
        {"paper": paper, "year": file.year, "title": file.title, "artefacts": list(file.artefacts)}
        for paper, file in read.items()
    ]


def all_recipe_facts(scale: str, files: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return the main facts on every recipe at a scale, or at the largest one that its grid has."""
    from repfl.bench.grid.grid import SCALES

    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    facts = []
    for full_name, (grid, name) in recipes(files).items():
        chosen = max(grid.file.scales, key=lambda each: (each == scale, SCALES.index(each)))
        recipe = grid.recipe(name, chosen)
        facts.append(
            {
                "name": full_name,
                "label": grid.label(name),
                "scale": chosen,
                "dataset": recipe.dataset,
                "model": recipe.model,
                "clients": recipe.clients,
                "partition": recipe.partition.rule,
                "options": dict(recipe.partition.options),
                "participation": recipe.participation,
                "rounds": recipe.training.rounds,
                "epochs": recipe.training.epochs,
                "batch": recipe.training.batch,
                "lr": recipe.training.lr,
            }
        )
    return facts


def find_recipe(
    name: str, scale: str | None, files: Sequence[Path] = ()
) -> tuple[str, Recipe, str, int]:
    """Return a recipe by `paper/recipe`, or by its recipe name if that is unique: full name,
    recipe, scale (by default the largest of its grid) and the first seed of the scale.
    """
    from repfl.bench.grid.grid import SCALES

    available = recipes(files)
    names = [
        each
        for each in available
        if hyphened(name) in (hyphened(each), hyphened(each.partition("/")[2]))
    ]
    if not names:
        raise unknown("recipe", name, available)
    if len(names) > 1:
        raise UserError(f"recipe {name!r} is in several papers: say {' or '.join(names)}")
    grid, recipe = available[names[0]]
    scales = grid.file.scales
    scale = scale or max(scales, key=SCALES.index)
    if scale not in scales:
        raise unknown("scale", scale, scales)
    return names[0], grid.recipe(recipe, scale), scale, scales[scale].seeds[0]
