"""The regression gate: small cells of every method, against a committed reference.

On a platform that the reference knows, digests must be equal: nothing may move at all. Elsewhere two things are compared. The accuracy, as
the mean over seeds, must lie in a band taken from the spread of the reference's own seeds; and the size of the final state, computed in
float64 so that platforms agree far better than any change of an algorithm would let them, must agree to `CLOSE`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import sqrt
from pathlib import Path
from typing import Any

from bench.cells.cell import build_cell, parse_spec, recipe_from, spec
from bench.cells.plan import Planned
from bench.errors import FAILED, UserError, one_line, unknown
from bench.records import provenance
from bench.records.store import Record, Store, write_synced, writing
from paper_tables.core.statistics import Spread, spread

FILE = Path(__file__).with_name("reference.json")
SCHEMA = 1
SEEDS = (1, 2, 3)
CLOSE = 1e-7
"""Relative difference of a state's size between platforms; a float64 run of this length differs by less than 1e-9."""
LEAST_BAND = 0.005
"""Half a point of accuracy: less than one test sample per client."""

_TRAINING = {"rounds": 4, "epochs": 2, "batch": 16, "lr": 0.05, "momentum": 0.9, "weight_decay": 0.001}
_PARTITION = {"rule": "class-dirichlet", "options": {"alpha": 0.5, "minimum": 10}}
_POINTS = {"points": ["start", "pre_agg", "post_agg"]}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "everybody": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 6,
        "partition": {"rule": "client-dirichlet", "options": {"alpha": 0.5, "train": 40, "test": 30}},
        "training": {**_TRAINING, "lr_decay": 0.99},
        "evaluation": _POINTS,
    },
    "cohort": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 8,
        "participation": 0.5,
        "partition": _PARTITION,
        "training": {**_TRAINING, "buffers": "global", "start": "own"},
        "evaluation": _POINTS,
    },
}
"""One recipe of equal clients who all take part, with local statistics; one of unequal ones, half of whom take part, with averaged ones."""
SMALL: Mapping[str, Mapping[str, Any]] = {
    **{name: {"beta": 3} for name in ("fedcac", "fedpurin")},
    **{name: {"degree": 2} for name in ("dfedavgm", "dfedpgp", "dis-pfl", "pfeddst")},
    "floco": {"tau": 2},
}
"""Hyper-parameters that count rounds or peers, for four of those and six of these: both sides of every switch are seen, and every choice is
one. Before and after a switch there are different numbers of rounds, so that to exchange them changes the totals."""
UNUSED: Mapping[str, Sequence[str]] = {"fedpurin": ("ends=true",)}
"""Switches that no paper turns, and that are no variants therefore."""


@dataclass(frozen=True)
class Place:
    """One cell of the gate."""

    spec: str
    recipe: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.spec} {self.recipe} {self.seed}"

    @property
    def group(self) -> tuple[str, str]:
        return self.spec, self.recipe


@dataclass(frozen=True)
class Move:
    """Something that moved."""

    method: str
    version_then: int
    version_now: int
    then: float
    now: float
    allowed: str
    why: str


@dataclass
class Regression:
    """What a check found."""

    reference: str
    how: str
    cells: int = 0
    methods: int = 0
    moved: list[Move] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# -- the cells of the gate -----------------------------------------------------------------------------------------------------------------


def places(methods: Sequence[str] = ()) -> list[tuple[Place, Planned]]:
    """Every method with every recipe and seed, and each of its variants once."""
    from algorithms.core.method import methods as registry

    known = registry()
    for name in methods:
        if name not in known:
            raise unknown("method", name, known, "--method")
    found = []
    for name in sorted(methods or known):
        base = SMALL.get(name, {})
        for recipe in RECIPES if "p2p" not in known[name].needs else ("everybody",):
            found += [(name, dict(base), recipe, seed) for seed in SEEDS]
        for variant in (*known[name].variants, *UNUSED.get(name, ())):
            found.append((name, {**base, **parse_spec(f"{name}[{variant}]")[1]}, "everybody", SEEDS[0]))
    return [_place(*each) for each in found]


def _place(name: str, hp: dict[str, Any], recipe: str, seed: int) -> tuple[Place, Planned]:
    cell = build_cell(name, hp, recipe_from(RECIPES[recipe], f"recipe {recipe!r} of the gate"), seed)
    place = Place(spec(name, hp), recipe, seed)
    return place, Planned(cell, "check", recipe, "table", place.spec, recipe, recipe, "smoke")


def compute(methods: Sequence[str], workers: int | None) -> dict[Place, Record]:
    """Today's records of the gate's cells, computed in a folder of their own."""
    from bench.running import progress, runner
    from bench.running.task import Options

    chosen = places(methods)
    with tempfile.TemporaryDirectory(prefix="repfl-check-") as folder:
        options = Options(folder, precision="fp64", checkpoint_every=1e9)
        found = runner.run([planned for _, planned in chosen], options, None, workers, progress.make())
        if found.signal:
            raise UserError("stopped by a signal; nothing was compared", found.exit_code)
        store = Store(folder)
        records = {place: store.get(planned.cell.id) for place, planned in chosen}
    return {place: record for place, record in records.items() if record is not None}


# -- the reference -------------------------------------------------------------------------------------------------------------------------


def read(path: Path | None) -> dict[str, Any]:
    """The reference file."""
    path = path or FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["schema"] != SCHEMA or not isinstance(values["cells"], dict) or not isinstance(values["history"], list):
            raise ValueError(f"schema {values['schema']}, expected {SCHEMA}")
    except FileNotFoundError:
        raise UserError(f"reference {path}: there is none; make it with `repfl check --accept --reason TEXT`") from None
    except OSError as error:
        raise UserError(f"reference {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"reference {path}: is not a reference file: {one_line(error)}") from None
    return dict(values)


def entry_of(record: Record) -> dict[str, Any]:
    """What the reference keeps of a cell."""
    digests = record.provenance.get("digests", {})
    return {
        "version": record.cell["version"],
        "status": record.status,
        "value": record.metrics.get("value"),
        "probe": {name: float(f"{value:.12g}") for name, value in record.provenance.get("probe", {}).items()},
        "traffic": record.metrics.get("traffic", {}),
        "digest": "".join(digests[name][:16] for name in ("state", "curves")) if digests else "",
    }


def accept(path: Path | None, reason: str, methods: Sequence[str], workers: int | None) -> Path:
    """Take today's numbers as the reference, and keep why. Digests of other platforms stay where nothing moved."""
    path = path or FILE
    if not reason.strip():
        raise UserError('--accept needs --reason "why the new numbers are right"')
    places(methods)
    old: dict[str, Any] = read(path) if path.exists() else {"schema": SCHEMA, "cells": {}, "history": []}
    here, records = _platform(), compute(methods, workers)
    failed = [f"{place.key} {record.status}: {record.reason}" for place, record in records.items() if record.status != "done"]
    if failed:
        raise UserError(f"{len(failed)} cells of the gate failed, so the reference stays as it is; the first: {failed[0]}", FAILED)
    cells = {key: value for key, value in old["cells"].items() if methods and parse_spec(key.split(" ")[0])[0] not in methods}
    moved = []
    for place, record in records.items():
        now, before = entry_of(record), old["cells"].get(place.key)
        digests = {here: now.pop("digest")}
        if before is not None and _same(before, now):
            digests = {**before["digests"], **digests}
        elif before is not None:
            moved.append(place.key)
        cells[place.key] = {**now, "digests": digests}
    note = {"reason": reason.strip(), "platform": here, "cells": len(records), "moved": moved, **provenance.commit()}
    data = {"schema": SCHEMA, "cells": cells, "history": [*old["history"], note]}
    with writing(path.parent):
        partial = path.with_suffix(".partial")
        write_synced(partial, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())
        partial.replace(path)
    return path


def _platform() -> str:
    return str(provenance.platform_of("cpu", "fp64")["fingerprint"])


def _same(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two entries tell of the same computation, up to rounding."""
    return then["value"] == now["value"] and then["traffic"] == now["traffic"] and _apart(then["probe"], now["probe"]) <= CLOSE


def _apart(then: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Largest relative difference of the sizes of states; infinite if they do not have the same tensors."""
    if set(then) != set(now):
        return float("inf")
    return max((abs(now[name] - then[name]) / max(abs(then[name]), abs(now[name]), 1e-12) for name in then), default=0.0)


# -- the comparison ------------------------------------------------------------------------------------------------------------------------


def check(path: Path | None, methods: Sequence[str], workers: int | None) -> Regression:
    """Compute the gate's cells and compare them with the reference."""
    places(methods)
    reference, here = read(path), _platform()
    records = compute(methods, workers)
    exact = any(here in cell["digests"] for cell in reference["cells"].values())
    how = f"digests, platform {here}" if exact else f"bands, since platform {here} is not in the reference"
    found = Regression(str(path or FILE), how, len(records), len({parse_spec(place.spec)[0] for place in records}))
    for (name, recipe), group in groupby(records.items(), key=lambda pair: pair[0].group):
        found.moved += _compare(f"{name} {recipe}", dict(group), reference["cells"], here)
    gone = [key for key in reference["cells"] if key not in {place.key for place in records}]
    gone = [key for key in gone if not methods or parse_spec(key.split(" ")[0])[0] in methods]
    found.notes += [f"{key}: in the reference, and no longer a cell of the gate" for key in gone]
    if found.moved and reference["history"]:
        last = reference["history"][-1]
        found.notes.append(f"reference of commit {str(last.get('commit'))[:12]}: {last['reason']}")
    return found


def _compare(label: str, records: Mapping[Place, Record], cells: Mapping[str, Any], here: str) -> Iterator[Move]:
    """One method on one recipe, over its seeds: at most one move, the first that is found."""
    now = {place.key: entry_of(record) for place, record in records.items()}
    then = {key: cells[key] for key in now if key in cells}
    before, after = _scores(then), _scores(now)
    versions = [next((cell["version"] for cell in entries.values()), 0) for entries in (then, now)]
    found = _standing(records, then) or _difference(then, now, before, after, here)
    if found is not None:
        yield Move(label, versions[0], versions[1], before.mean, after.mean, *found)


def _scores(entries: Mapping[str, Any]) -> Spread:
    return spread([cell["value"] for cell in entries.values() if cell["value"] is not None])


def _standing(records: Mapping[Place, Record], then: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong before any number is looked at: cells that are new, or that end otherwise than they did."""
    for place, record in records.items():
        if place.key not in then:
            return "-", "not in the reference; take it in with --accept"
        status = then[place.key]["status"]
        if record.status != status:
            return "-", f"seed {place.seed} was {status}, is {record.status}: {record.reason or 'without a fault'}"
    return None


def _difference(then: Mapping[str, Any], now: Mapping[str, Any], before: Spread, after: Spread, here: str) -> tuple[str, str] | None:
    """What was allowed and what moved; nothing if all is within bounds."""
    if all(here in cell["digests"] for cell in then.values()):
        wrong = [key.rpartition(" ")[2] for key in now if now[key]["digest"] != then[key]["digests"][here]]
        return ("equal bits", f"digest of seed {', '.join(wrong)}") if wrong else None
    band = max(LEAST_BAND, 2 * before.std / sqrt(before.count)) if before.count > 1 else 4 * LEAST_BAND
    if before.count and abs(after.mean - before.mean) > band:
        return f"{100 * band:.2f}", "accuracy"
    for what, kept in (("size of the final state", "probe"), ("bytes", "traffic")):
        apart = max(_apart(then[key][kept], now[key][kept]) for key in now)
        if apart > CLOSE:
            return f"{CLOSE:g}", f"{what}, by {apart:.1e}"
    return None
