"""Partitions: which client gets which samples.

A partitioner is a function (pool, clients, seed, options) -> ClientSplits with a frozen dataclass
of options, in `datasets/partitions/`. It refuses impossible requests before any loop, and every
loop is bounded.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from repfl.datasets.core.errors import DataError, suggest
from repfl.datasets.core.recipe import Partition, Recipe
from repfl.datasets.core.registry import SPLITS, Dataset
from repfl.datasets.core.rng import generator
from repfl.datasets.core.splits import ClientSplits as ClientSplits
from repfl.datasets.core.splits import hold_out_public, hold_out_validation

if TYPE_CHECKING:
    from repfl.datasets.core.cache import Prepared

OPTIONS = ConfigDict(strict=True, extra="forbid")
"""pydantic's configuration of every partitioner's options."""
MAX_ATTEMPTS = 1000
"""Rejected draws after which a request counts as infeasible."""


@dataclass(frozen=True)
class Facts:
    """What is known of a dataset before its samples are read."""

    splits: Mapping[str, int]
    classes: int
    groups: tuple[str, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether there are an official train and an official test split."""
        return {"train", "test"} <= set(self.splits)

    def require_splits(self) -> None:
        """Raise if there are no official splits."""
        if not self.is_split:
            raise DataError(
                "the rule samples from official train and test splits, which this dataset does not"
                " have"
            )

    def check_test_share(self, test_share: float | None) -> None:
        """Raise if a share of test samples is given beside an official split, or is missing."""
        if self.is_split and test_share is not None:
            raise DataError(
                "partition option test_share is for datasets without an official test split: leave"
                " it out"
            )
        if not self.is_split and test_share is None:
            raise DataError(
                "this dataset has no official train and test split: set the partition option"
                " test_share, such as 0.2"
            )


@dataclass(frozen=True)
class Pool:
    """The samples to partition."""

    labels: np.ndarray  # int64 [n]
    splits: Mapping[str, range]
    classes: int
    groups: np.ndarray | None = None  # int64 [n]
    group_names: tuple[str, ...] = ()
    source_ids: np.ndarray | None = None  # int64 [n]

    @property
    def facts(self) -> Facts:
        """What a rule may check before it partitions."""
        sizes = {name: len(index) for name, index in self.splits.items()}
        return Facts(sizes, self.classes, self.group_names)

    @property
    def all_samples(self) -> range:
        """The indices of all samples of all splits."""
        return range(len(self.labels))

    def by_class(self, index: Iterable[int] | np.ndarray) -> list[np.ndarray]:
        """Return the ascending indices of each class among some samples."""
        if isinstance(index, range):
            start, labels = index.start, np.asarray(self.labels[index.start : index.stop])
            return [np.flatnonzero(labels == label) + start for label in range(self.classes)]
        ordered = np.sort(np.asarray(index, dtype=np.int64))
        return [ordered[self.labels[ordered] == label] for label in range(self.classes)]

    def train_and_test(
        self, seed: int, test_share: float | None, index: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the official train and test split, or cut one per class with `test_share`.

        Samples of one source stay together.
        """
        facts = self.facts if index is None else Facts({}, self.classes)
        facts.check_test_share(test_share)
        if test_share is None:
            return np.asarray(self.splits["train"]), np.asarray(self.splits["test"])
        train: list[np.ndarray] = []
        test: list[np.ndarray] = []
        for label, members in enumerate(
            self.by_class(self.all_samples if index is None else index)
        ):
            sources = members if self.source_ids is None else self.source_ids[members]
            drawn = generator(seed, "partition/split", label).permutation(np.unique(sources))
            tested = np.isin(sources, drawn[: int(test_share * len(drawn) + 0.5)])
            test.append(members[tested])
            train.append(members[~tested])
        return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


Partitioner = Callable[[Pool, int, int, Any], ClientSplits]
Check = Callable[[Facts, int, Any], None]
"""Raise DataError if so many clients cannot be served with these options."""
P = TypeVar("P", bound=Partitioner)


class Registered(NamedTuple):
    """A partitioner, its dataclass of options, its version, and its check."""

    function: Partitioner
    options: type
    version: int
    check: Check | None


_PARTITIONERS: dict[str, Registered] = {}


def partitioner(
    name: str, options: type, *, version: int = 1, check: Check | None = None
) -> Callable[[P], P]:
    """Register a partitioner and its dataclass of options under a name.

    Raise `version` if a change moves who holds what. `check(facts, clients, options)` raises
    DataError for requests that cannot be met; it is called when cells are planned, too.
    """

    def register(function: P) -> P:
        if name in _PARTITIONERS:
            raise DataError(f"partition rule {name!r} is registered twice")
        _PARTITIONERS[name] = Registered(function, options, version, check)
        return function

    return register


@lru_cache(maxsize=1)
def _load() -> None:
    package = import_module("repfl.datasets.partitions")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"repfl.datasets.partitions.{module.name}")


def partitioners() -> dict[str, Registered]:
    """Return all partitioners by name."""
    _load()
    return dict(sorted(_PARTITIONERS.items()))


# -- options ---------------------------------------------------------------------------------------


def resolve(partition: Partition) -> dict[str, Any]:
    """Return all options of a partition, including defaults; those that were added later only if
    they are set.
    """
    options = _options(partition)[1]
    return dict(TypeAdapter(type(options)).dump_python(options))


def has_validation(partition: Partition) -> bool:
    """Return whether clients get validation samples."""
    return partition.val_share is not None or _own_validation(partition)


def check_val_share(partition: Partition) -> None:
    """Raise if both the recipe and the partitioner hold out validation samples."""
    if partition.val_share is not None and _own_validation(partition):
        raise DataError(
            "the rule holds out validation samples itself: leave val_share out, or make"
            " train_share + test_share = 1"
        )


def _own_validation(partition: Partition) -> bool:
    """Return whether the partitioner holds out validation samples itself."""
    options = resolve(partition)
    return "train_share" in options and options["train_share"] + options["test_share"] < 1


def check_request(partition: Partition, facts: Facts, clients: int) -> None:
    """Raise if a dataset cannot be partitioned like that, as far as can be told without it."""
    registered, options = _options(partition)
    if registered.check is not None:
        registered.check(facts, clients, options)


def _options(partition: Partition) -> tuple[Registered, Any]:
    """Return the partitioner and its validated options."""
    known = partitioners()
    if partition.rule not in known:
        raise DataError(
            f"unknown partition rule {partition.rule!r}: {suggest(partition.rule, known)}"
        )
    registered = known[partition.rule]
    valid = [field.name for field in fields(registered.options)]
    options = {name.replace("-", "_"): value for name, value in partition.options.items()}
    for name in options:
        if name not in valid:
            raise DataError(
                f"partition {partition.rule!r} has no option {name!r}:"
                f" {suggest(name, valid) if valid else 'it has none'}"
            )
    try:
        return registered, registered.options(**options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "options"
        raise DataError(
            f"partition {partition.rule!r}, option {where}: {first['msg']} (got {first['input']!r})"
        ) from None


# -- partitioning ----------------------------------------------------------------------------------


def partition(data: Prepared | Pool, recipe: Recipe, seed: int) -> ClientSplits:
    """Partition a dataset over the clients of a recipe.

    The partition's own seed, if it has one, replaces the cell's.
    """
    registered, options = _options(recipe.partition)
    seed = recipe.partition.seed_in(seed)
    pool = data if isinstance(data, Pool) else _pool(data)
    where = f"{recipe.dataset}, partition {recipe.partition.rule!r}"
    try:
        check_request(recipe.partition, pool.facts, recipe.clients)
        splits = registered.function(pool, recipe.clients, seed, options)
        if not isinstance(splits, ClientSplits):
            raise DataError(f"the rule returns {type(splits).__name__}; it returns ClientSplits")
        if not registered.function.__module__.startswith("repfl."):
            again = registered.function(pool, recipe.clients, seed, options)
            if splits.digest != again.digest:
                raise DataError(
                    "the rule deals other clients the second time: draw from"
                    " generator(seed, 'partition/...')"
                )
        splits = _hold_out(splits, pool, recipe, seed)
    except DataError as error:
        raise DataError(f"{where} for {recipe.clients} clients: {error}") from None
    if pool.source_ids is not None:
        _check_sources(pool.source_ids, splits, where)
    for client, (train, test) in enumerate(zip(splits.train, splits.test, strict=True)):
        for part, index in (("training", train), ("test", test)):
            if not len(index):
                problem = f"client {client} gets no {part} samples: use fewer clients"
                raise DataError(f"{where}: {problem}, or another partition")
    _check_apart(splits, len(pool.labels), where)
    return splits


def _check_apart(splits: ClientSplits, samples: int, where: str) -> None:
    """Raise if there is no such sample, or if one is for two purposes."""
    held = {
        "training": np.concatenate(splits.train),
        "testing": np.concatenate(splits.test),
        "validation": np.concatenate(splits.val),
    }
    for one, two in combinations(held, 2):
        if len(both := np.intersect1d(held[one], held[two])):
            raise DataError(f"{where}: sample {both[0]} is for {one} and for {two}")
    every = np.concatenate(list(held.values()))
    if len(none := every[(every < 0) | (every >= samples)]):
        raise DataError(f"{where}: there is no sample {none[0]}; valid: 0 to {samples - 1}")


def published_pool(dataset: Dataset) -> Pool | None:
    """Return the samples of a dataset as far as they are published: classes, but no images.

    Prepared samples are sorted by split and class, so class counts per split are all that most
    rules use. With counts over all splits alone, as in `totals`, there is one split, and a rule
    that shuffles all samples draws others than with the data. None if no counts are published, or
    if samples have domains, persons or sources as well.
    """
    edition = dataset.editions[0] if dataset.editions else None
    if edition is None or dataset.groups:
        return None
    counts = edition.counts or ({"all": edition.totals} if edition.totals else {})
    if not counts:
        return None
    classes = len(dataset.classes)
    labels: list[np.ndarray] = []
    splits, start = {}, 0
    for split in (name for name in SPLITS if name in counts):
        labels.append(np.repeat(np.arange(classes), counts[split]))
        splits[split] = range(start, start := start + len(labels[-1]))
    return Pool(np.concatenate(labels), splits, classes)


def _hold_out(splits: ClientSplits, pool: Pool, recipe: Recipe, seed: int) -> ClientSplits:
    """Hold out the validation and the public samples that a recipe asks for."""
    check_val_share(recipe.partition)
    if (share := recipe.partition.val_share) is not None:
        splits = hold_out_validation(splits, pool.labels, share, seed, pool.source_ids)
    if recipe.public is not None:
        splits = hold_out_public(splits, recipe.public.samples, seed, pool.source_ids)
    return splits


def _pool(prepared: Prepared) -> Pool:
    description = prepared.description
    return Pool(
        np.asarray(prepared.labels),
        prepared.splits,
        len(description.classes),
        None if prepared.groups is None else np.asarray(prepared.groups),
        description.groups,
        None if prepared.source_ids is None else np.asarray(prepared.source_ids),
    )


def _check_sources(source_ids: np.ndarray, splits: ClientSplits, where: str) -> None:
    """Raise if samples of one source, such as a photograph, are in more than one split."""
    parts = [
        np.unique(source_ids[np.concatenate(part)])
        for part in (splits.train, splits.test, splits.val)
    ]
    sources, times = np.unique(np.concatenate(parts), return_counts=True)
    if (times > 1).any():
        raise DataError(
            f"{where}: samples derived from source {sources[times > 1][0]} appear in more than one"
            " split; use a partitioner that keeps sources together, or a dataset without source ids"
        )


def majority_accuracy(splits: ClientSplits, labels: np.ndarray) -> tuple[float, float]:
    """Return the accuracy of predicting each client's most frequent train class.

    The lowest of equally frequent classes counts. Mean over clients, and pooled.
    """
    correct, total = [], []
    for train, test in zip(splits.train, splits.test, strict=True):
        favourite = np.bincount(labels[train]).argmax()
        correct.append(int((labels[test] == favourite).sum()))
        total.append(len(test))
    hits, sizes = np.array(correct), np.array(total)
    return float((hits / sizes).mean()), float(hits.sum() / sizes.sum())
