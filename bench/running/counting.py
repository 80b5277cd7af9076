"""Counting what a model computes: PyTorch tells every kernel that a step starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from repfl.algorithms import models
from repfl.algorithms.core import apart, dense, ops
from repfl.algorithms.core.ops import Mode
from repfl.algorithms.core.rng import Streams

if TYPE_CHECKING:
    from torch import Tensor

    from repfl.algorithms.core.federation import Federation
    from repfl.algorithms.core.method import Method
    from repfl.algorithms.core.model import Model
    from repfl.algorithms.core.run import Run

MANY = 30
"""Rounds of a run that is counted. Counting makes a round half as long again, so it is done in few
of many.
"""
FIRST = 3
"""Rounds at the beginning that are all counted."""
MATRICES = {"mm": 0, "bmm": 0, "addmm": 1, "addmm_": 1, "baddbmm": 1, "_linear_pointwise": 0}
"""Matrix products, and which argument their left factor is."""


class Counter(TorchDispatchMode):
    """Counts the kernels that run inside, but those that only look at memory differently."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.products = self.elements = 0

    def __torch_dispatch__(
        self, kernel: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = kernel(*args, **(kwargs or {}))
        if kernel.is_view:
            return out
        outputs = [t for t in (out if isinstance(out, tuple | list) else [out]) if _is_tensor(t)]
        self.calls += 1
        self.elements += sum(t.numel() for t in outputs)
        name = kernel.overloadpacket.__name__
        if name == "convolution":
            self.products += outputs[0].numel() * args[1][0].numel()
        elif name == "convolution_backward":
            gradient, _, weight = args[:3]
            self.products += gradient.numel() * weight[0].numel() * sum(args[-1][:2])
        elif name in MATRICES:
            self.products += outputs[0].numel() * args[MATRICES[name]].shape[-1]
        return out


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


@contextmanager
def counted(run: Run) -> Iterator[Counter]:
    """What the method itself computes in a round that is made inside, its scores apart."""
    method, counter = run.method, Counter()
    run.method = cast("Method", _Watched(method, counter))
    try:
        yield counter
    finally:
        run.method = method


class Tally:
    """What all rounds of a run multiply, from a few of them. Which ones is a matter of their
    numbers alone, so that a run that was interrupted counts the same.
    """

    def __init__(self, rounds: int, known: Mapping[int, int]) -> None:
        """`known`: what was counted before the run was interrupted, by round."""
        self.rounds, self.known = rounds, dict(known)
        self.typical = {rounds // 3, 2 * rounds // 3, rounds}
        """Methods begin with a round or two of another kind, or change in the middle."""

    def step(self, run: Run) -> None:
        """Make the next round of the run, counted if it is one of the few."""
        number = run.round + 1
        if self.rounds < MANY or (number > FIRST and number not in self.typical):
            run.step()
            return
        with counted(run) as counter:
            run.step()
        self.known[number] = counter.products

    def told(self, clients: int) -> dict[str, int]:
        """The sum over rounds, of which each has so many clients; nothing of a run that is short or
        was in part computed without counting.
        """
        first = set(range(1, FIRST + 1))
        if self.rounds < MANY or not first | self.typical <= self.known.keys():
            return {}
        usual = median(self.known[number] for number in self.typical)
        total = sum(self.known[number] for number in first) + (self.rounds - FIRST) * usual
        return {"clients": clients, "rounds": self.rounds, "multiply_adds": round(total)}


class _Watched:
    """A method whose rounds are counted."""

    def __init__(self, method: Method, counter: Counter) -> None:
        self._method, self._counter = method, counter

    def round(self, state: dict[str, Tensor], fed: Federation) -> dict[str, Tensor]:
        with self._counter:
            return self._method.round(state, fed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)


def count(model: Model, shape: tuple[int, int, int], samples: int, *, train: bool) -> Counter:
    """The kernels of a training step, or of scoring, with so many samples."""
    params = model.layout.split(model.initial(Streams(0))[None])
    for part in model.layout:
        params[part.name].requires_grad_(train and part.kind != "stat")
    x, y = torch.zeros(1, samples, *shape), torch.zeros(samples, dtype=torch.int64)
    with torch.set_grad_enabled(train), Counter() as counter:
        logits = model.logits(params, x, Mode(train=train))
        if train:
            F.cross_entropy(logits.squeeze(0), y).backward()
    return counter


def layers(model: str, channels: int, size: int, classes: int) -> dict[str, float]:
    """What `operations.Network` holds of a model, counted on two samples and on three, so few that
    PyTorch's own kernels take them: what grows with them is per sample.
    """
    built = models.build(model, channels=channels, size=size, classes=classes)
    shape, found = (channels, size, size), dict[str, float]()
    for kind, train in (("train", True), ("score", False)):
        two, three = (count(built, shape, samples, train=train) for samples in (2, 3))
        with ops.convolution("windows"):
            windows = count(built, shape, 2, train=train)
        counts = {
            "calls": two.calls,
            "products": two.products / 2,
            "windows": windows.products / 2,
            "elements": three.elements - two.elements,
        }
        found |= {f"{kind}_{name}": float(count) for name, count in counts.items()}
    linear = [part.size for part in built.layout if part.kind == "linear"]
    large = sum(size for size in linear if size >= dense.LARGE)
    biased = {part.name.removesuffix("bias") for part in built.layout if part.kind == "bias"}
    kernels = [part for part in built.layout if part.kind == "conv"]
    taken = sum(
        part.size
        for part in kernels
        if part.name.removesuffix("weight") in biased and apart.worth(part.shape)
    )
    return {
        "parameters": float(built.layout.size),
        **found,
        "large_linear": float(large),
        "apart": float(taken),
    }
