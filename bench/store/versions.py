"""Versions: whether a result is what would be computed today.

A result is *current* if all versions that it was computed with are today's, else *stale*. People
raise versions on purpose: `ENGINE`, and the `version` of a method, a data set or a partition rule.
`repfl check` fails if numbers move without that. Plug-ins have no versions, so their files are
hashed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from repfl.bench.grid import plugins
from repfl.bench.store.contents import Provenance
from repfl.bench.store.provenance import data_moved

PLUGIN = "plugin"


class Currency(NamedTuple):
    """Whether a result is current, and why not."""

    current: bool
    reason: str = ""


def of_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return today's versions of everything that computes a cell.

    Raise a KeyError if a method, data set or rule is not registered.
    """
    from repfl.algorithms.core import ENGINE
    from repfl.algorithms.core.method import methods
    from repfl.datasets.core import partition, registry
    from repfl.datasets.core.errors import DataError

    recipe = cell["recipe"]
    rule = recipe["partition"]["rule"]
    method = _registered("method", cell["method"], methods())
    versions = {"engine": ENGINE, "method": method.version}
    try:
        versions["dataset"] = registry.get(recipe["dataset"]).version
    except DataError:
        raise KeyError("data set", recipe["dataset"]) from None
    versions["rule"] = _registered("partition rule", rule, partition.partitioners()).version
    return versions | _plugin(cell["method"], recipe, rule)


def _registered(kind: str, name: str, registered: Mapping[str, Any]) -> Any:
    from repfl.algorithms.core.method import MethodError

    try:
        return registered[name]
    except (KeyError, MethodError):  # or a wrapper around a method that it cannot be around
        raise KeyError(kind, name) from None


def _plugin(method: str, recipe: Mapping[str, Any], rule: str) -> dict[str, str]:
    """Return one hash of all plug-ins that a cell uses; empty if it uses none."""
    components = [
        ("method", method),
        ("dataset", recipe["dataset"]),
        ("model", recipe.get("model")),
        ("partition", rule),
        *(("metric", name) for name in (recipe.get("evaluation") or {}).get("metrics") or ()),
    ]
    digests = {plugins.digest(kind, str(name)) for kind, name in components} - {""}
    return {PLUGIN: sha256(" ".join(sorted(digests)).encode()).hexdigest()} if digests else {}


def of_record(origin: Provenance, cell: Mapping[str, Any]) -> Currency:
    """Return the currency of a stored record; it is also stale if its data have changed since."""
    for moved in data_moved(origin.data or {}):
        return Currency(False, f"made with other data: {moved}")
    return currency(origin.versions, cell)


def of_line(origin: Provenance, cell: Mapping[str, Any]) -> Currency:
    """Return the currency of a committed run; it is stale if uncommitted code computed it."""
    if origin.dirty:
        return Currency(
            False, f"made from a clone with changes, at commit {str(origin.commit)[:8]}"
        )
    return currency(origin.versions, cell)


def currency(recorded: Mapping[str, Any], cell: Mapping[str, Any]) -> Currency:
    """Return the currency of a result with these versions, naming the versions that differ."""
    try:
        current = of_cell(cell)
    except KeyError as error:
        kind, name = error.args
        return Currency(False, f"there is no {kind} {name!r} today")
    differing = [
        f"{name} {recorded.get(name, 0)} (today {version})"
        for name, version in current.items()
        if name != PLUGIN and recorded.get(name) != version
    ]
    if differing:
        return Currency(False, f"made by {', '.join(differing)}")
    if recorded.get(PLUGIN) != current.get(PLUGIN):
        changed = "has changed since" if PLUGIN in current else "is not loaded"
        return Currency(False, f"a plug-in that it was made with {changed}")
    return Currency(True)
