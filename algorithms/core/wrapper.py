"""Wrappers: what changes how any method communicates, such as `fedper+dp`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from repfl.algorithms.core.messages import Message, Numbers, Vectors
from repfl.algorithms.core.method import Entry, Method, MethodError, hyperparameters, methods

if TYPE_CHECKING:
    from repfl.algorithms.core.sending import Way


class Wrapper(Method[Any]):
    """A class that goes before a method's own, as in `class Mine(DP, FedPer)`: its `round` calls
    `super().round`. Its hyper-parameters bear its name, as in `dp_clip`, and join the method's.
    """


@dataclass(frozen=True)
class WrapperEntry:
    """The facts about a wrapper; as `wrapper`, the class decorator that registers it."""

    name: str
    title: str
    sends: str
    """What it changes about a method's messages, in words."""
    messages_only: bool = True
    """Whether it changes nothing but messages, and so nothing of a method that sends none."""
    version: int = 1
    cls: type[Wrapper] = Wrapper  # type: ignore[type-abstract]

    def __call__(self, cls: type[Wrapper]) -> type[Wrapper]:
        WRAPPERS[self.name] = replace(self, cls=cls)
        return cls


wrapper = WrapperEntry
WRAPPERS: dict[str, WrapperEntry] = {}


def compose(name: str, inner: Entry) -> Entry:
    """Return the entry of a wrapped method, given its full name and the method's entry."""
    outer = WRAPPERS[name.rpartition("+")[2]]
    if inner.cls.decentralised:
        raise MethodError(
            f"method {name!r}: {inner.name} has no server; wrappers are for methods with one"
        )
    # what a method sends comes first, then what wrappers do with it
    if outer.messages_only and inner.sends.partition(";")[0] == "nothing":
        raise MethodError(
            f"method {name!r}: {inner.name} sends nothing, and {outer.name} changes only what is"
            f" sent; did you mean {inner.name}?"
        )
    mine = {n for n in vars(outer.cls) if not n.startswith("_")} - vars(Method).keys()
    if both := sorted(mine & set(dir(inner.cls))):
        raise MethodError(
            f"method {name!r}: {inner.name} and {outer.name} both define {both[0]!r}; rename it in"
            " one of them"
        )
    of_hp = {
        "__doc__": f"Hyper-parameters of {inner.name}, and of {outer.name} around it.",
        "__module__": inner.cls.__module__,
        "__reduce__": lambda self: (restored, (name, vars(self))),
    }
    hp = hyperparameters(type("HP", (outer.cls.HP, inner.cls.HP), of_hp))
    body = {"HP": hp, "__doc__": inner.cls.__doc__, "__module__": inner.cls.__module__}
    cls = type(f"{outer.cls.__name__}{inner.cls.__name__}", (outer.cls, inner.cls), body)
    return replace(
        inner,
        name=name,
        title=f"{inner.title} + {outer.title}",
        sends=f"{inner.sends}; {outer.sends}",
        version=inner.version + outer.version - 1,
        variants=(),
        cls=cls,
    )


def restored(name: str, values: dict[str, Any]) -> Any:
    """Return the hyper-parameters of a wrapped method in another process."""
    return methods()[name].cls.HP(**values)


class Uploads:
    """A tap on what clients upload in one round: `change` returns what is sent instead, given what
    the client received in its place.

    The n-th upload of a round belongs to the n-th download of the same kind and shape; one without
    belongs to zeros.
    """

    def __init__(self, change: Callable[[Message, Tensor, int, list[int]], Message]) -> None:
        self.change = change
        self.received: dict[tuple[Any, ...], list[Tensor]] = {}
        self.sent: dict[tuple[Any, ...], int] = {}
        self.count = 0

    def tap(self, way: Way, message: Message, rows: list[int]) -> Message:
        """Remember what clients receive, and change what they send."""
        shape = message.shape if isinstance(message, Numbers) else message.values.shape[1:]
        kind = (type(message), *shape)
        if way == "down":
            values = message.received().expand(len(rows), *shape)
            self.received.setdefault(kind, []).append(values)
            return message
        place = self.sent[kind] = self.sent.get(kind, -1) + 1
        earlier = self.received.get(kind, [])
        anchor = earlier[place] if place < len(earlier) else torch.zeros_like(message.values)
        self.count += 1
        return self.change(message, anchor, self.count, rows)


def entries_sent(message: Message) -> Tensor:
    """Return which of the values are sent, as a mask that broadcasts to them."""
    if isinstance(message, Vectors):
        return message.mask
    assert isinstance(message, Numbers)
    if message.rows is None:
        return torch.ones_like(message.values, dtype=torch.bool)
    return message.rows.view(*message.rows.shape, *[1] * (len(message.shape) - 1))
