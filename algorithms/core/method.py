"""What a method is, and the registry that knows them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from inspect import isfunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import AliasChoices, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic.fields import FieldInfo
from torch import Tensor

from repfl.algorithms.core.local_training import recalibrate_batch_norm

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation
    from repfl.algorithms.engine.evaluate import Models

State = dict[str, Tensor]
"""A method's whole memory between two rounds: a flat dict of tensors, so saving, resuming and
hashing come for free.
"""


def part(state: State, prefix: str) -> State:
    """Return the entries whose name has a prefix, without it."""
    return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}


Need = Literal["bn", "epochs", "head", "p2p", "public"]
"""Normalisation layers, whole epochs to divide, a head, neighbours, public samples."""
Chosen = TypeVar("Chosen")
"""The class of a method's hyper-parameters."""
M = TypeVar("M", bound="Method[Any]")

hyperparameters = checked_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
"""Decorator of a method's hyper-parameters: frozen, validated when the cell is built."""

validator = model_validator(mode="after")
"""Decorator of a check of several hyper-parameters: it returns self, or raises ValueError with what
is wrong.
"""


def param(
    default: Any,
    doc: str,
    *,
    paper: Any = None,
    search: Mapping[str, Sequence[Any]] | None = None,
    aliases: tuple[str, ...] = (),
    added_later: bool = False,
    **limits: Any,
) -> Any:
    """A hyper-parameter: its default, its meaning, what papers use, the range that a search tries,
    such as {"log": [0.01, 1]}, and its valid range (pydantic's ge, gt, le, lt).

    `aliases` are the names under which it may be given, its own among them. `compat` is the word
    for "as published code runs it"; where such a switch has been stored under another name, that
    stays, since it is part of the ids of cells, and `compat` is understood too. A choice that is
    one of several departures of the same code keeps a name of its own. `added_later`: while it has
    its default it is left out of a cell, so that cells from before it existed keep their ids.
    """
    for name in limits.keys() - {"ge", "gt", "le", "lt"}:
        raise MethodError(f"param({name}=...): unknown limit; valid: ge, gt, le, lt")
    if aliases:
        limits["validation_alias"] = AliasChoices(*aliases)
    if added_later:
        limits["exclude_if"] = lambda value: value == default
    schema: dict[str, Any] = {"paper": paper, "search": search}
    return Field(default, description=doc, json_schema_extra=schema, **limits)


@hyperparameters
class NoHyperparameters:
    """A method that has nothing to choose."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"no hyper-parameter {name!r}; a method's class needs the line HP = HP"
        )


class Method(ABC, Generic[Chosen]):
    """One federated algorithm. It uses the `Federation` that it is given and nothing else.

    `class Mine(Method[HP])` with `HP = HP` knows the types of `self.hp`.
    """

    HP: type = NoHyperparameters
    decentralised = False
    """No server samples clients: all of them take part in every round."""
    uses_validation = False
    """It decides something by its clients' validation images."""
    family = ""
    """What it was registered as: `global` methods score all clients with the server's model."""
    scores_start = False
    """`round` itself calls `fed.score("start", ...)` with the models before training."""

    server_rows: tuple[str, ...] = ()
    """Entries of the state with a row for each client that nevertheless lie at the server: names,
    or patterns such as "hyper*".
    """

    def __init__(self, hp: Chosen | None = None) -> None:
        self.hp: Chosen = self.HP() if hp is None else hp

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        """Return the class that runs these hyper-parameters: a subclass if a switch asks for
        another algorithm, such as that of published code.
        """
        return cls

    @property
    def personalizes(self) -> bool:
        """Whether clients train before they are scored, hence in the recipe's `finetuned_every`."""
        return type(self).personalize is not Method.personalize

    def lies_with_clients(self, name: str, entry: Tensor, clients: int) -> bool:
        """Return whether an entry of the state has a row for each client, which is the client's."""
        at_server = any(fnmatchcase(name, pattern) for pattern in self.server_rows)
        return entry.shape[:1] == (clients,) and not at_server

    @abstractmethod
    def init(self, fed: Federation) -> State:
        """Return the state before the first round."""

    @abstractmethod
    def round(self, state: State, fed: Federation) -> State:
        """Run one communication round of the clients in `fed.active`.

        `state` may be modified in place. Pop large tensors before replacing them to lower peak
        memory.
        """

    @abstractmethod
    def client_params(self, state: State, fed: Federation) -> Models:
        """Return the models of the clients in `fed.active`, before `personalize`  [K, D]; or a
        `Mixture` of several.
        """

    def personalize(self, fed: Federation, params: Tensor) -> Tensor:
        """Train models [K, D] before they are scored; nothing flows back."""
        return params

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the model that unseen clients start from  [D], or [N, D].

        By default the server's, `theta`; for methods without it, the mean of the communicated
        entries of `w`, over the clients that have taken part if the state has `seen`; all others
        initial.
        """
        if "theta" in state:
            return state["theta"]
        if "w" not in state:
            raise MethodError(
                f"{type(self).__name__} must say what unseen clients start from: define"
                " `newcomer_init` or `newcomer_params`"
            )
        models, seen = state["w"], state.get("seen")
        models = models if seen is None or not seen.any() else models[seen]
        return models.mean(0).where(fed.communicated, fed.new_model())

    def newcomer_params(self, state: State, fed: Federation) -> Models | None:
        """Return the models that unseen clients are scored with  [N, D]; None: the method has no
        meaning for them.

        `fed` is a federation of these clients alone, with the samples and epochs that the recipe
        grants them. By default they train all of what they start from; under a `global` method
        they take it as it is.
        """
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        if self.family == "global":
            return recalibrate_batch_norm(fed, start)
        return fed.train(start, stream="join")


class MethodError(ValueError):
    """A method is declared, built or written wrongly."""


FAMILIES = (
    "clustered", "decentralised", "fine-tuning", "global", "hypernetwork", "local", "mask",
    "mixture", "partial", "prototype", "regularised",
)  # fmt: skip
"""What methods are grouped by; `global` ones score all clients with one model."""


@dataclass(frozen=True)
class Entry:
    """The facts about a method without building it; as `register`, the class decorator that
    registers it.

    `sends` says in words what crosses the network per participant and round. `version` enters the
    id of every cell: raise it whenever a change moves the method's numbers. `variants` are the
    switches that are worth a run of their own, as in `name[switch=on]`; the accuracy gate computes
    each. `cost` is what a training sample costs, as a multiple of FedAvg's, or a function of
    hyper-parameters, epochs and a client's training samples that returns it. `fast_hp` are
    hyper-parameters with which a check of the contract does not take long; `gate_hp` are those with
    which the gate's few rounds and clients show both sides of every switch. `files` are those that
    the method reads, such as weights, relative to its own file: their hashes are part of a cell's
    id.
    """

    name: str
    _: KW_ONLY
    title: str
    paper: str
    year: int
    family: str
    sends: str
    needs: tuple[Need, ...] = ()
    version: int = 1
    variants: tuple[str, ...] = ()
    cost: float | Callable[[Any, float, float], float] = 1.0
    fast_hp: Mapping[str, Any] = field(default_factory=dict)
    gate_hp: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    cls: type[Method[Any]] = Method  # type: ignore[type-abstract]
    """The class that is decorated."""

    @property
    def one_model(self) -> bool:
        """Whether all clients are scored with one and the same model after aggregation."""
        return self.family == "global" and self.cls.personalize is Method.personalize

    def __call__(self, cls: type[M]) -> type[M]:
        """Register a class as a method."""
        name, old = self.name, _REGISTRY.get(self.name)
        if not issubclass(cls, Method):
            problem = f"{cls.__name__} is no Method; write class {cls.__name__}(Method[HP])"
            raise MethodError(f"method {name!r}: {problem}")
        if old and (old.cls.__module__, old.cls.__qualname__) != (cls.__module__, cls.__qualname__):
            raise MethodError(
                f"method {name!r} is registered twice: {old.cls.__module__} and {cls.__module__}"
            )
        if self.family not in FAMILIES:
            raise MethodError(
                f"method {name!r}: unknown family {self.family!r}; valid: {', '.join(FAMILIES)}"
            )
        _check_defaults(name, cls.HP)
        _check_overrides(name, cls)
        if lacking := sorted(cls.__abstractmethods__):
            raise MethodError(f"method {name!r}: {cls.__name__} lacks {', '.join(lacking)}")
        cls.family = self.family
        _REGISTRY[name] = replace(self, cls=cls)
        return cls


register = Entry


class Registry(dict[str, Entry]):
    """Methods by name; `fedper+dp` is made of its parts when it is asked for, and not listed."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, tuple[Entry, Entry]] = {}

    def __missing__(self, name: str) -> Entry:
        from repfl.algorithms.core import wrapper

        inner, _, outer = name.rpartition("+")
        if not inner or outer not in wrapper.WRAPPERS:
            raise KeyError(name)
        method = self[inner]
        if name not in self._made or self._made[name][0] is not method:
            self._made[name] = (method, wrapper.compose(name, method))
        return self._made[name][1]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an entry, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None


_REGISTRY = Registry()


def _check_defaults(name: str, hp: type) -> None:
    """Refuse a field without a type, and a default out of its range: pydantic takes both."""
    defaults, fields = {}, getattr(hp, "__pydantic_fields__", {})
    for field_, value in vars(hp).items():
        if isinstance(value, FieldInfo) and field_ not in fields:
            raise MethodError(f"method {name!r}: write `{field_}: TYPE = param(...)`, with a type")
    for field_, info in fields.items():
        alias = info.validation_alias
        spelled = str(alias.choices[0]) if isinstance(alias, AliasChoices) else field_
        defaults[spelled] = info.get_default(call_default_factory=True)
    try:
        hp(**defaults)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field_, message = ".".join(map(str, first["loc"])), first["msg"]
        raise MethodError(
            f"method {name!r}: default {field_} = {first['input']!r} is not valid:"
            f" {message[:1].lower()}{message[1:]}"
        ) from None


def _check_overrides(name: str, cls: type[Method[Any]]) -> None:
    """Refuse a name that is something else in a class from which the method derives: what calls it
    there would fail, in a file that the user has not written.
    """
    for attribute, own in vars(cls).items():
        for base in () if attribute.startswith("__") else cls.__mro__[1:]:
            inherited = vars(base).get(attribute)
            if isfunction(inherited) and not _fits(own, inherited):
                theirs = f"{base.__name__}.{attribute}{signature(inherited)}"
                raise MethodError(
                    f"method {name!r}: {cls.__name__}.{attribute} replaces {theirs}, which is"
                    " called otherwise; give yours another name, or these parameters"
                )


def _fits(own: Any, inherited: Callable[..., Any]) -> bool:
    """Return whether a function can be called as one that it replaces."""
    if not isfunction(own):
        return not isinstance(own, int | float | str | tuple | list | dict)
    required = [p for p in signature(inherited).parameters.values() if p.default is p.empty]
    by_name = {p.name: None for p in required if p.kind is p.KEYWORD_ONLY}
    by_place = [p for p in required if p.kind is p.POSITIONAL_OR_KEYWORD]
    try:
        signature(own).bind(*by_place, **by_name)
    except TypeError:
        return False
    return True


def methods() -> Mapping[str, Entry]:
    """Every registered method by name."""
    _load()
    return _REGISTRY


@lru_cache(maxsize=1)
def _load() -> None:
    """Import every file directly under `algorithms`, which registers a method, and the wrappers."""
    folder = Path(__file__).parents[1]
    for file in sorted(folder.glob("*.py")):
        import_module(f"repfl.algorithms.{file.stem}")
    for file in sorted((folder / "wrappers").glob("[!_]*.py")):
        import_module(f"repfl.algorithms.wrappers.{file.stem}")


def build(name: str, overrides: Mapping[str, Any] | None = None) -> Method[Any]:
    """A method with its hyper-parameters; pydantic refuses what is unknown, of a wrong type or out
    of range.
    """
    cls = methods()[name].cls
    return with_hp(cls, cls.HP(**(overrides or {})))


def with_hp(cls: type[Method[Any]], hp: Any) -> Method[Any]:
    """Return a method with validated hyper-parameters, of the class that their switches choose.

    A variant, which is no part of that class, goes before it.
    """
    chosen = cls.chosen_by(hp)
    if not issubclass(chosen, cls):
        facts = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        chosen = type(cls.__name__, (cls, chosen), facts)
    return chosen(hp)


def field_of(cls: type, name: str) -> str:
    """The hyper-parameter that a name stands for."""
    for field_, info in getattr(cls, "__pydantic_fields__", {}).items():
        alias = info.validation_alias
        if isinstance(alias, AliasChoices) and name in alias.choices:
            return str(field_)
    return name
