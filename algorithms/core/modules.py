"""Plain `nn.Module`s as models: one client at a time, through `torch.func.functional_call`.

Their parameters and batch-norm statistics take their places in a layout, and the last linear layer
is the head, so that every method works on them. What layers over a client axis
(`repfl.algorithms.core.ops`) do at once is done client by client. Initial values are those that the
module's own constructor draws, from a generator that the cell's seed sets. Whatever else a module
holds is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from repfl.algorithms.core.layout import Kind, Params
from repfl.algorithms.core.model import Model, ModelError, Spec
from repfl.algorithms.core.ops import EVAL, Mode
from repfl.algorithms.core.rng import Streams

BatchNorm = nn.modules.batchnorm._BatchNorm
NORMS = (BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
STATISTICS = {"mean": "running_mean", "var": "running_var"}
"""What a layout calls them, and what PyTorch does."""
Taps = list[tuple[str, Tensor, Tensor]]


def adapted(
    name: str, build: Callable[[], Model | nn.Module], shape: tuple[int, ...], classes: int
) -> Model:
    """What a builder from outside makes, as a model of inputs [C, H, W]."""
    try:
        made = _seeded(build, 0)
        if isinstance(made, nn.Module):
            return PlainModel(name, build, shape, classes)
    except ModelError:
        raise
    except Exception as error:  # a module of others may fail in any way
        raise ModelError(
            f"model {name!r} does not take inputs {list(shape)}: {type(error).__name__}:"
            f" {' '.join(str(error).split())}"
        ) from error
    if not isinstance(made, Model):
        raise ModelError(f"model {name!r}: its builder returns {made!r}, which is no nn.Module")
    return made


class PlainModel(Model):
    """A module of PyTorch's as a model."""

    stacked = False

    def __init__(
        self, name: str, build: Callable[[], Any], shape: tuple[int, ...], classes: int
    ) -> None:
        self._build = build
        whole, self._module = _seeded(build, 0), _seeded(build, 0)
        head = _head_of(name, whole)
        self._module.set_submodule(head, nn.Identity())
        self._theirs = dict(_tensors(name, whole, head))
        state = _state(whole)
        specs = tuple(
            _spec(ours, state[theirs], whole, head) for ours, theirs in self._theirs.items()
        )
        super().__init__(name, specs, self._forward, head)
        used = set(self._theirs.values())
        self._constants = {
            key: value for key, value in self._module.named_buffers() if key not in used
        }
        self._inner = [s.name for s in self.layout if not s.head]
        self._statistics = [s.name for s in self.layout if s.kind == "stat"]
        _check(self, whole, shape, classes)

    def initial(self, streams: Streams, *address: int) -> Tensor:
        """What the constructor draws at an address of the random streams  [D] float32."""
        seed = int(streams.at("model", *address).integers(2**62))
        return self._flat(_state(_seeded(self._build, seed)))

    def _flat(self, state: dict[str, Tensor]) -> Tensor:
        return torch.cat([state[theirs].float().flatten() for theirs in self._theirs.values()])

    def _forward(self, params: Params, x: Tensor, mode: Mode) -> Tensor:
        """x [K, B, C, H, W] -> what the head sees  [K, B, F]."""
        taps: list[Taps] = [[] for _ in range(x.shape[0])]
        rows = [self._one(params, x, client, mode, seen) for client, seen in enumerate(taps)]
        if mode.tap is not None:
            for layers in zip(*taps, strict=True):
                names, inputs, outputs = zip(*layers, strict=True)
                mode.tap(names[0], torch.stack(inputs), torch.stack(outputs))
        return torch.stack(rows)

    def _one(self, params: Params, x: Tensor, client: int, mode: Mode, taps: Taps) -> Tensor:
        """One client's features  [B, F]; padded samples are left out, and zero."""
        images = _row(x, client)
        real = None if mode.valid is None else mode.valid[client]
        if real is not None:
            images = images[real]
        held = {name: _row(params[name], client) for name in self._inner}
        if mode.train:  # autograd keeps what it is given, and a later client would move it
            held |= {name: held[name].clone() for name in self._statistics}
        given = {self._theirs[name]: value for name, value in held.items()}
        given |= {name: _like(value, x) for name, value in self._constants.items()}
        # a batch of one sample has no variance: it is normalised as in scoring
        self._module.train(mode.train and len(images) > 1)
        with self._tapped(taps if mode.tap is not None else None):
            features: Tensor = functional_call(self._module, given, (images,))
        if mode.train:
            with torch.no_grad():
                for name in self._statistics:
                    _row(params[name], client).copy_(held[name])
        if real is None:
            return features
        padded = features.new_zeros(len(real), features.shape[1])
        padded[real] = features
        return padded

    @contextmanager
    def _tapped(self, taps: Taps | None) -> Iterator[None]:
        """Note what goes into and out of batch-norm layers, if somebody wants to know."""
        layers = self._module.named_modules() if taps is not None else ()
        hooks = [
            layer.register_forward_hook(
                lambda _, inputs, out, name=name, note=taps: note.append((name, inputs[0], out))
            )
            for name, layer in layers
            if isinstance(layer, BatchNorm)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def _seeded(build: Callable[[], Any], seed: int) -> Any:
    """What a constructor makes of one seed; PyTorch's generator is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()


def _row(stacked: Tensor, client: int) -> Tensor:
    """One client's part; a single client is squeezed, which costs nothing on the way back."""
    return stacked.squeeze(0) if stacked.shape[0] == 1 else stacked[client]


def _like(constant: Tensor, x: Tensor) -> Tensor:
    """A copy of a constant where the inputs are, so that a module that changes it changes no other
    client's.
    """
    dtype = x.dtype if constant.is_floating_point() else constant.dtype
    return constant.to(x.device, dtype, copy=True)


# -- a module's tensors ----------------------------------------------------------------------------


def _state(module: nn.Module) -> dict[str, Tensor]:
    """Parameters, each once, and buffers."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: value.detach() for name, value in named.items()}


def _head_of(name: str, module: nn.Module) -> str:
    """The name of the last linear layer."""
    known = dict(module.named_parameters())
    linear = [key for key, layer in module.named_modules() if key and isinstance(layer, nn.Linear)]
    if not linear or not {f"{linear[-1]}.weight", f"{linear[-1]}.bias"} <= set(known):
        raise ModelError(
            f"model {name!r}: its head is the last nn.Linear within it, which needs weights of its"
            " own and a bias"
        )
    return linear[-1]


def _tensors(name: str, module: nn.Module, head: str) -> Iterator[tuple[str, str]]:
    """What a layout calls each tensor, and what the module does; layer by layer, the head last."""
    known = dict(module.named_parameters())
    layers = {key: layer for key, layer in module.named_modules() if key != head}
    for place, layer in [*layers.items(), (head, module.get_submodule(head))]:
        prefix = f"{place}." if place else ""
        for key, _ in layer.named_parameters(recurse=False):
            if prefix + key in known:  # tied ones are one tensor
                yield prefix + key, prefix + key
        if isinstance(layer, BatchNorm) and layer.running_mean is not None:
            if layer.momentum is None:
                raise ModelError(f"model {name!r}: {place} needs a momentum, such as 0.1")
            yield from ((prefix + ours, prefix + theirs) for ours, theirs in STATISTICS.items())


def _spec(ours: str, value: Tensor, module: nn.Module, head: str) -> Spec:
    place, _, last = ours.rpartition(".")
    kind: Kind = "bias"
    if isinstance(module.get_submodule(place), NORMS):
        kind = "stat" if last in STATISTICS else "norm"
    elif value.ndim > 1:
        kind = "conv" if value.ndim == 4 else "linear"
    return ours, tuple(value.shape), kind, place == head, _not_here


def _not_here(rng: Any, shape: tuple[int, ...]) -> Any:
    raise NotImplementedError("the module's constructor draws its own initial values")


# -- whether a module can be a model ---------------------------------------------------------------


def _check(model: PlainModel, whole: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """A small batch through the module as it is and through the model gives the same, and draws
    nothing.
    """
    x = torch.arange(2 * prod(shape), dtype=torch.float32).sin().view(1, 2, *shape)
    params = model.layout.split(model._flat(_state(whole))[None])
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        expected = whole.eval()(x[0])
        if tuple(expected.shape) != (2, classes):
            raise ModelError(
                f"model {model.name!r} returns {list(expected.shape)} for 2 samples of {classes}"
                f" classes; valid: [2, {classes}]"
            )
        features = model.features(params, x, EVAL)
        if features.ndim != 3 or not torch.allclose(model.head(params, features)[0], expected):
            raise ModelError(
                f"model {model.name!r} does something after its last linear layer {model._head!r};"
                " it must return what that layer returns, [B, classes]"
            )
        before = torch.get_rng_state()
        model.features(params, x, Mode(train=True))
        if not torch.equal(before, torch.get_rng_state()):
            raise ModelError(
                f"model {model.name!r} draws random numbers while it trains, such as dropout, which"
                " a resumed run could not repeat; set p = 0"
            )
