"""Dealing a pool of samples to clients.

A rule is a function (pool, clients, seed, options) -> Shares with a frozen dataclass of options.
Rules live in `datasets/partitions/`. Whether a request can be met is decided before any loop, and
every loop is bounded.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pydantic import ConfigDict, ValidationError

from repfl.datasets.core.apart import with_validation
from repfl.datasets.core.errors import DataError, nearest
from repfl.datasets.core.recipe import Partition, Recipe
from repfl.datasets.core.rng import generator

OPTIONS = ConfigDict(strict=True, extra="forbid")  # configuration of every rule's options
ATTEMPTS = 1000  # how often a rejected draw is repeated before the request counts as infeasible


@dataclass(frozen=True)
class Pool:
    """The samples to deal: labels, where the splits lie, and the names of classes and groups."""

    labels: np.ndarray  # int64 [n]
    splits: Mapping[str, range]
    classes: int
    groups: np.ndarray | None = None  # int64 [n]
    group_names: tuple[str, ...] = ()
    origins: np.ndarray | None = None  # int64 [n]

    def of(self, span: Iterable[int] | np.ndarray) -> list[np.ndarray]:
        """Per class the ascending indices of a span of samples."""
        if isinstance(span, range):
            start, labels = span.start, np.asarray(self.labels[span.start : span.stop])
            return [np.flatnonzero(labels == label) + start for label in range(self.classes)]
        index = np.sort(np.asarray(span, dtype=np.int64))
        return [index[self.labels[index] == label] for label in range(self.classes)]

    def _forms(self, index: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Those samples that are forms of some originals."""
        assert self.origins is not None
        return index[np.isin(self.origins[index], origins)]

    @property
    def everything(self) -> range:
        """All samples of all splits."""
        return range(len(self.labels))

    def train_and_test(
        self, seed: int, test_share: float | None, span: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The official train and test split; of a dataset without one, a stratified cut with the
        given share of test samples.
        """
        if span is None and "train" in self.splits and "test" in self.splits:
            if test_share is not None:
                raise DataError(
                    "partition option test_share is for datasets without an official test split:"
                    " leave it out"
                )
            return np.asarray(self.splits["train"]), np.asarray(self.splits["test"])
        if test_share is None:
            raise DataError(
                "this dataset has no official train and test split: set the partition option"
                " test_share, such as 0.2"
            )
        train: list[np.ndarray] = []
        test: list[np.ndarray] = []
        for label, index in enumerate(self.of(self.everything if span is None else span)):
            forms = index if self.origins is None else np.unique(self.origins[index])
            forms = generator(seed, "partition/split", label).permutation(forms)
            cut = int(test_share * len(forms) + 0.5)
            for part, chosen in ((test, forms[:cut]), (train, forms[cut:])):
                part.append(chosen if self.origins is None else self._forms(index, chosen))
        return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


@dataclass(frozen=True)
class Shares:
    """Who holds what: per client the indices of its train, test and validation samples."""

    train: list[np.ndarray]  # N x int64 [n_i]
    test: list[np.ndarray]
    val: list[np.ndarray]

    @classmethod
    def of(
        cls, train: Sequence[Any], test: Sequence[Any], val: Sequence[Any] | None = None
    ) -> Shares:
        """Shares from anything array-like; no validation part means an empty one for everybody."""
        parts = [
            [np.asarray(index, dtype=np.int64) for index in part]
            for part in (train, test, val or [[]] * len(train))
        ]
        return cls(*parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all indices."""
        digest = sha256()
        for part in (self.train, self.test, self.val):
            for index in part:
                digest.update(np.int64(len(index)).astype("<i8").tobytes())
                digest.update(index.astype("<i8").tobytes())
        return digest.hexdigest()


Rule = Callable[[Pool, int, int, Any], Shares]
R = TypeVar("R", bound=Rule)


class Registered(NamedTuple):
    """A partition rule, its dataclass of options, and its version."""

    function: Rule
    options: type
    version: int


_RULES: dict[str, Registered] = {}


def rule(name: str, options: type, *, version: int = 1) -> Callable[[R], R]:
    """Make a partition rule known by its name. Raise `version` if a change moves who holds what."""

    def register(function: R) -> R:
        if name in _RULES:
            raise DataError(f"partition rule {name!r} is registered twice")
        _RULES[name] = Registered(function, options, version)
        return function

    return register


@lru_cache(maxsize=1)
def _load() -> None:
    package = import_module("repfl.datasets.partitions")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"repfl.datasets.partitions.{module.name}")


def rules() -> dict[str, Registered]:
    """All partition rules by name."""
    _load()
    return dict(sorted(_RULES.items()))


def resolve(partition: Partition) -> dict[str, Any]:
    """All options of a partition, defaults included."""
    return asdict(_options(partition)[1])


def validates(partition: Partition) -> bool:
    """Whether a partition sets validation samples apart."""
    return partition.val_share is not None or _by_rule(partition)


def _by_rule(partition: Partition) -> bool:
    """Whether the rule does so itself."""
    shares = resolve(partition)
    return "train_share" in shares and shares["train_share"] + shares["test_share"] < 1


def _options(partition: Partition) -> tuple[Rule, Any]:
    """The rule of a partition and its validated options."""
    known = rules()
    if partition.rule not in known:
        raise DataError(
            f"unknown partition rule {partition.rule!r}: {nearest(partition.rule, known)}"
        )
    function, options, _ = known[partition.rule]
    valid = [field.name for field in fields(options)]
    for name in partition.options:
        if name not in valid:
            raise DataError(
                f"partition {partition.rule!r} has no option {name!r}:"
                f" {nearest(name, valid) if valid else 'it has none'}"
            )
    try:
        return function, options(**partition.options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "options"
        raise DataError(
            f"partition {partition.rule!r}, option {where}: {first['msg']} (got {first['input']!r})"
        ) from None


def deal(prepared: Any, recipe: Recipe, seed: int) -> Shares:
    """Deal a prepared dataset (or a Pool) to the clients of a recipe; the partition's own seed, if
    any, overrides the cell's.
    """
    function, options = _options(recipe.partition)
    chosen = recipe.partition.seed_in(seed)
    pool, share = pool_of(prepared), recipe.partition.val_share
    try:
        shares = function(pool, recipe.clients, chosen, options)
        refuse_two_validations(recipe.partition)
        if share is not None:
            shares = with_validation(shares, pool.labels, share, chosen)
    except DataError as error:
        raise DataError(
            f"{recipe.dataset}, partition {recipe.partition.rule!r} for {recipe.clients} clients:"
            f" {error}"
        ) from None
    if pool.origins is not None:
        _refuse_forms_apart(pool.origins, shares, recipe)
    for client, (train, test) in enumerate(zip(shares.train, shares.test, strict=True)):
        if not len(train) or not len(test):
            raise DataError(
                f"{recipe.dataset}, partition {recipe.partition.rule!r}: client {client} gets no"
                " samples: use fewer clients"
            )
    return shares


def _refuse_forms_apart(origins: np.ndarray, shares: Shares, recipe: Recipe) -> None:
    """Refuse to train on one form of an original, such as a photograph, and to test on another."""
    parts = [
        np.unique(origins[np.concatenate(part)]) for part in (shares.train, shares.test, shares.val)
    ]
    held, times = np.unique(np.concatenate(parts), return_counts=True)
    if (times > 1).any():
        raise DataError(
            f"{recipe.dataset}, partition {recipe.partition.rule!r}: original"
            f" {held[times > 1][0]} has forms in more than one of training, validation and test;"
            " valid: another rule, or a dataset without origins"
        )


def refuse_two_validations(partition: Partition) -> None:
    """Refuse a share for validation where the rule has one of its own."""
    if partition.val_share is not None and _by_rule(partition):
        raise DataError(
            "the rule sets validation samples apart itself: leave val_share out, or make"
            " train_share + test_share = 1"
        )


def pool_of(prepared: Any) -> Pool:
    """The part of a prepared dataset that dealing looks at."""
    if isinstance(prepared, Pool):
        return prepared
    description = prepared.description
    return Pool(
        np.asarray(prepared.labels),
        prepared.splits,
        len(description.classes),
        None if prepared.groups is None else np.asarray(prepared.groups),
        description.groups,
        None if prepared.origins is None else np.asarray(prepared.origins),
    )


def floor(shares: Shares, labels: np.ndarray) -> tuple[float, float]:
    """Accuracy of always predicting the client's most frequent train class (the lowest of equals):
    mean over clients, and pooled.
    """
    right, total = [], []
    for train, test in zip(shares.train, shares.test, strict=True):
        favourite = np.bincount(labels[train]).argmax()
        right.append(int((labels[test] == favourite).sum()))
        total.append(len(test))
    hits, sizes = np.array(right), np.array(total)
    return float((hits / sizes).mean()), float(hits.sum() / sizes.sum())
