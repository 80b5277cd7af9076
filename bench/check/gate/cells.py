"""The cells of the gate: every method on small recipes of embedded digits.

Two recipes for every method and seed; and for each paper one that has every option of its
protocol, for the methods of its tables as they are there. A test walks the papers' grids, so that
an option which no recipe here has is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import unknown
from repfl.bench.grid.cell import build_cell, parse_spec, spec
from repfl.bench.grid.plan import Planned
from repfl.bench.grid.recipes import recipe_from

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry

SEEDS = (1, 2, 3)

_TRAINING = {
    "rounds": 4,
    "epochs": 2,
    "batch": 16,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 0.001,
}
_POINTS = {"points": ["start", "pre_agg", "post_agg"]}
COMMON: Mapping[str, Mapping[str, Any]] = {
    "everybody": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 6,
        "partition": {
            "rule": "client-dirichlet",
            "options": {"alpha": 0.5, "train": 40, "test": 30},
        },
        "training": {**_TRAINING, "lr_decay": 0.99},
        "evaluation": _POINTS,
    },
    "cohort": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 8,
        "participation": 0.5,
        "partition": {"rule": "class-dirichlet", "options": {"alpha": 0.5, "minimum": 10}},
        "training": {**_TRAINING, "buffers": "global", "start": "own"},
        "evaluation": _POINTS,
    },
}
"""One recipe of equal clients who all take part, with local statistics; one of unequal ones, half
of whom take part, with averaged ones.
"""

PAPERS: Mapping[str, Mapping[str, Any]] = {
    "fedobp": {
        "dataset": "digits",
        "model": "tiny",
        "clients": 6,
        "participation": 0.5,
        "sampling": "flbench",
        "norm": "standard",
        "partition": {
            "rule": "class-dirichlet",
            "seed": 42,
            "options": {"alpha": 0.5, "test_share": 0.7, "minimum": 10},
        },
        "training": {"rounds": 4, "epochs": 2, "batch": 12, "lr": 0.1, "skip_single": True},
        "evaluation": {
            "every": 2,
            "start_every": 1,
            "points": ["start", "post_agg"],
            "average": "pooled",
            "rule": "max",
        },
    },
    "star-pfl": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 6,
        "norm": "raw",
        "classes": 11,
        "partition": {
            "rule": "pairwise-dirichlet",
            "seed": 5,
            "options": {"alpha": 0.1, "train_share": 0.06, "test_share": 0.8},
        },
        "training": {
            "rounds": 4,
            "epochs": 3,
            "batch": 16,
            "lr": 0.2,
            "weighting": "uniform",
            "buffers": "global",
        },
        "evaluation": {"points": ["pre_agg", "post_agg"], "point": "pre_agg", "rule": "best-val"},
    },
    "fedselect": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 6,
        "norm": "standard",
        "augment": "crop-flip",
        "partition": {"rule": "class-shards", "options": {"classes": 5, "train": 8, "test": 6}},
        "training": {"rounds": 4, "epochs": 1, "batch": 8, "lr": 0.2},
        "evaluation": {
            **_POINTS,
            "start_every": 3,
            "finetuned_every": 1,
            "rule": "max",
            "rounds": [1, 2],
            "tallies": ["mask"],
        },
    },
    "pfeddst": {
        "dataset": "digits",
        "model": "tiny",
        "clients": 20,
        "participation": 0.25,
        "augment": "crop-flip",
        "partition": {"rule": "n-cls", "options": {"classes": 2}},
        "training": {
            "rounds": 3,
            "epochs": 1,
            "batch": 20,
            "lr": 0.1,
            "momentum": 0.9,
            "weight_decay": 0.0005,
            "lr_decay": 0.995,
            "clip": 1.0,
            "weighting": "uniform",
        },
        "evaluation": {"finetuned_every": 2, "points": ["post_agg"], "tallies": ["peers"]},
    },
    "fedpurin": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 5,
        "norm": "standard",
        "augment": "flip-rotate-crop",
        "partition": {
            "rule": "client-dirichlet",
            "options": {"alpha": 0.1, "train": 40, "test": 30},
        },
        "training": {
            "rounds": 4,
            "epochs": 2,
            "batch": 20,
            "lr": 0.1,
            "momentum": 0.9,
            "start": "own",
        },
        "evaluation": {
            "points": ["pre_agg", "post_agg"],
            "point": "pre_agg",
            "rule": "max",
            "tallies": ["mask", "server"],
        },
    },
    "board": {
        "dataset": "digits",
        "model": "tiny-bn",
        "clients": 8,
        "partition": {
            "rule": "class-dirichlet",
            "val_share": 0.25,
            "options": {"alpha": 0.5, "minimum": 10},
        },
        "training": {"rounds": 4, "epochs": 2, "batch": 16, "lr": 0.1, "momentum": 0.5},
        "newcomers": {"share": 0.25, "samples": 12, "epochs": 2},
        "evaluation": {"every": 2, "points": ["post_agg"], "rule": "best-val"},
    },
}
"""The papers' protocols in small. A clip that is met, batches of one sample that are skipped,
clients of unequal size, rounds that do not count although they are better: every option is there to
change a number.
"""

_MODEL: Mapping[str, Any] = {
    "dataset": "digits",
    "clients": 2,
    "norm": "standard",
    "input": [3, 16, 16],
    "classes": 12,
    "partition": {"rule": "client-dirichlet", "options": {"alpha": 1.0, "train": 4, "test": 2}},
    "training": {"rounds": 1, "epochs": 1, "batch": 4, "lr": 0.01},
    "evaluation": {"every": 0, "points": ["pre_agg"], "point": "pre_agg"},
}
MODELS: Mapping[str, Mapping[str, Any]] = {
    **{
        name: {**_MODEL, "model": name}
        for name in ("resnet8", "resnet10", "resnet18", "resnet18-gn")
    },
    **{name: {**_MODEL, "model": name, "input": [3, 28, 28]} for name in ("lenet5", "cnn4")},
    "trace": {
        **_MODEL,
        "model": "tiny",
        "evaluation": {
            "points": ["start", "pre_agg"],
            "point": "start",
            "start_every": 0,
            "tallies": ["trace"],
        },
    },
}
"""The papers' models, for a few steps."""

RECIPES: Mapping[str, Mapping[str, Any]] = {**COMMON, **PAPERS, **MODELS}
EVERYBODY = "*"
ROWS: Mapping[str, Sequence[str]] = {
    "fedobp": (
        "local",
        "fedavg",
        "fedper[newcomer=global]",
        "apfl[mode=flbench]",
        "lg-fedavg[shared=first,newcomer=global]",
        "fedrep[newcomer=global]",
        "pfedfda[compat=flbench]",
        "flute[mode=flbench,body_epochs=1,detach=true,newcomer=global]",
        "feddpa",
        "floco",
        "fedala[worker=shared,subset=random]",
        "fedobp",
    ),
    "star-pfl": ("local", "fedavg", "fedbn", "fedap", "lotteryfl", "star-pfl"),
    "fedselect": (
        *(
            "local",
            "fedavg",
            "fedavg-ft",
            "fedavg-ft[part=head]",
            "fedper",
            "fedrep",
            "fedbabu",
            "lg-fedavg",
        ),
        *(
            "ditto",
            "fedpac",
            "fedselect",
            "fedselect[select=layer,layer=B]",
            "fedselect[select=layer,layer=C]",
        ),
    ),
    "pfeddst": (
        *("fedavg", "fedper", "fedbabu", "fedavg-ft", "dfedavgm", "dis-pfl", "dfedpgp"),
        *("pfeddst", "pfeddst[recency=none]"),
    ),
    "fedpurin": (
        *("local", "fedavg", "fedper", "fedbn", "pfedsd", "fedcac", "fedpurin"),
        "fedpurin[ends=false,grad_dtype=float32,cutoff=code,rest=own]",
    ),
    "board": (EVERYBODY,),
    **dict.fromkeys(MODELS, ("fedavg",)),
}
"""Whom the recipes of papers and models are for: the rows of the papers' tables, once. What a
method's own registration calls `gate` goes for all of them: hyper-parameters that count rounds or
peers, for four of those and six of these. Before and after a switch there are different numbers of
rounds, so that to exchange them changes the totals.
"""


@dataclass(frozen=True)
class GateCell:
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


def gate_cell_of(key: str) -> GateCell:
    """The inverse of `GateCell.key`."""
    name, recipe, seed = key.split(" ")
    return GateCell(name, recipe, int(seed))


def method_of(key: str) -> str:
    """The method of a cell."""
    return parse_spec(gate_cell_of(key).spec)[0]


def places(methods: Sequence[str] = ()) -> list[tuple[GateCell, Planned]]:
    """Every method with the common recipes and all seeds, with the board's, its variants once, and
    the papers' rows.
    """
    from repfl.algorithms.core.method import methods as registry

    known = registry()
    for name in methods:
        if name not in known:
            raise unknown("method", name, known, "--method")
    return [found for name in sorted(methods or known) for found in _of_method(name, known[name])]


def _of_method(name: str, entry: Entry) -> Iterator[tuple[GateCell, Planned]]:
    base = entry.gate
    for recipe in COMMON if "p2p" not in entry.needs else ("everybody",):
        for seed in SEEDS:
            yield _place(name, base, recipe, seed)
    variants = [parse_spec(f"{name}[{variant}]")[1] for variant in entry.variants]
    for options in variants:
        if not options.items() <= base.items():
            yield _place(name, {**base, **options}, "everybody", SEEDS[0])
    for recipe, options in _rows(name):
        yield _place(name, {**base, **options}, recipe, SEEDS[0])


def _rows(name: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """The papers' rows of a method: recipe and options."""
    rows = (
        (recipe, *(parse_spec(row) if row != EVERYBODY else (name, {})))
        for recipe, specs in ROWS.items()
        for row in specs
    )
    return ((recipe, options) for recipe, method, options in rows if method == name)


def _place(name: str, hp: Mapping[str, Any], recipe: str, seed: int) -> tuple[GateCell, Planned]:
    cell = build_cell(
        name, hp, recipe_from(RECIPES[recipe], f"recipe {recipe!r} of the gate"), seed
    )
    place = GateCell(spec(name, hp), recipe, seed)
    return place, Planned(cell, "check", recipe, "table", place.spec, recipe, recipe, "smoke")
