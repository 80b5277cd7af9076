"""Any `nn.Module` as a model of this package: its tensors come from outside, one client's at a time
or, within `torch.vmap`, those of many.

Parameters and batch-norm statistics have places in a flat vector (`Params`), in the module's own
order; the last `nn.Linear` is the head. Other buffers are constants: a model that changes one in
training is refused, since all clients share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from repfl.algorithms.engine.keyed_init import BatchNorm2d, KeyedModule
from repfl.algorithms.engine.params import Kind, Params
from repfl.algorithms.engine.rng import Streams

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
STATISTICS = ("running_mean", "running_var")


class ModelError(ValueError):
    """A model is declared wrongly, or does not take what it is given: one line that says why."""


class Model:
    """A module's architecture, with the layout and the initial values of its tensors."""

    def __init__(
        self,
        name: str,
        build: Callable[[], Any],
        shape: tuple[int, ...],
        classes: int,
        tokens: bool = False,
    ) -> None:
        self.name, self._build, self.shape, self.classes = name, build, shape, classes
        self.tokens = tokens
        whole = _seeded(build, 0)
        if not isinstance(whole, nn.Module):
            raise ModelError(
                f"model {name!r}: its builder returns {whole!r}, which is no nn.Module"
            )
        whole.float()  # whatever PyTorch's default type is
        self.head_name = _head_of(name, whole)
        self.params = Params(_tensors(whole, self.head_name, name))
        self._whole, self.body = whole, self._headless()
        self.body_names = [s.name for s in self.params if not s.head]
        norms = [layer for layer in whole.modules() if isinstance(layer, NORMS[:3])]
        self.takes_single = all(isinstance(layer, BatchNorm2d) for layer in norms)
        """Whether batch norm copes with one value per channel; PyTorch's own refuses."""
        self.random = _check(self, whole)
        """Whether training draws random numbers, as dropout does."""
        recurrent = any(isinstance(layer, nn.RNNBase) for layer in whole.modules())
        self.stacks = not self.random and not recurrent
        """Whether clients can be stacked: random layers draw for each client alone, and
        `torch.vmap` has no rule for PyTorch's recurrent layers.
        """

    def _headless(self) -> nn.Module:
        """Return the module without its head, and without a count of batches of no client."""
        body: nn.Module = _seeded(self._build, 0).float()
        body.set_submodule(self.head_name, nn.Identity())
        for layer in body.modules():
            if isinstance(layer, NORMS[:3]):
                layer.num_batches_tracked = None
        return body

    def example(self, device: torch.device | str = "cpu") -> Tensor:
        """Return two samples: token 0, or different numbers  [2, ...]."""
        if self.tokens:
            return torch.zeros(2, *self.shape, dtype=torch.int64, device=device)
        count = 2 * prod(self.shape)
        return torch.arange(count, dtype=torch.float32, device=device).sin().view(2, *self.shape)

    def at(self, device: torch.device, dtype: torch.dtype) -> Model:
        """Return the same model on a device."""
        other = copy(self)
        other.body = self._headless().to(device, dtype)
        other.params = self.params.on(device)
        return other

    def initial(self, streams: Streams, *address: int) -> Tensor:
        """Return initial values drawn at an address of the random streams  [D] float32.

        A module that draws none from a given generator is built again, with PyTorch's global
        generator at a keyed seed.
        """
        rng = streams.at("model", *address)
        module = self._whole
        if isinstance(module, KeyedModule):
            module.draw(rng)
        else:
            module = _seeded(self._build, int(rng.integers(2**62)))
        state = module.state_dict()
        return self.params.flatten({s.name: state[s.name].float() for s in self.params})

    def bind(self, tensors: Mapping[str, Tensor], *, training: bool = False) -> ClientModel:
        """Return the module with the given tensors."""
        return ClientModel(self, tensors, training)

    def of(self, vector: Tensor, *, training: bool = False) -> ClientModel:
        """Return the module with the values of a vector [D]: `fed.model.of(theta)(x)` are logits,
        at the server as at a client. Gradients reach all of the vector but batch-norm statistics.
        """
        named = self.params.unflatten(vector)
        fixed = {s.name: named[s.name].detach() for s in self.params if s.kind == "stat"}
        return self.bind(named | fixed, training=training)


class ClientModel:
    """The module with one client's tensors; call it like any module."""

    def __init__(self, model: Model, tensors: Mapping[str, Tensor], training: bool) -> None:
        self.model, self.tensors, self.training = model, tensors, training

    def __call__(self, x: Tensor) -> Tensor:
        """Return the logits  [B, C, H, W] -> [B, classes]."""
        return self.head(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """Return what the head sees  [B, C, H, W] -> [B, F]."""
        body = self.model.body
        # PyTorch's batch norm has no variance of a single sample: it is normalised as in scoring
        training = self.training and (self.model.takes_single or len(x) > 1)
        if body.training != training:
            body.train(training)
        inner = {name: self.tensors[name] for name in self.model.body_names}
        out: Tensor = functional_call(body, inner, (x,))
        return out

    def head(self, features: Tensor) -> Tensor:
        """Return the logits of features  [B, F] -> [B, classes]."""
        name = self.model.head_name
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.linear(features, weight, bias)

    def eval(self) -> ClientModel:
        """Return the same model in evaluation mode: batch norm uses its statistics as they are."""
        return ClientModel(self.model, self.tensors, training=False)

    def grad(self, loss: Callable[[ClientModel], Tensor]) -> dict[str, Tensor]:
        """Return the gradient of `loss(model)` by the model's parameters, itself differentiable:
        for losses that train within a step (second order).
        """
        trained = [s.name for s in self.model.params.trained]
        others = {n: t for n, t in self.tensors.items() if n not in trained}

        def value(leaves: dict[str, Tensor], others: dict[str, Tensor]) -> Tensor:
            return loss(self.replace(leaves | others))

        # the others are an argument, since batch norm changes its statistics in place
        return torch.func.grad(value)({n: self.tensors[n] for n in trained}, others)

    def replace(self, tensors: Mapping[str, Tensor]) -> ClientModel:
        """Return the model with some of its tensors replaced."""
        return ClientModel(self.model, {**self.tensors, **tensors}, self.training)


# -- a module's tensors ----------------------------------------------------------------------------


def _seeded(build: Callable[[], Any], seed: int) -> Any:
    """Build a module with PyTorch's global generator at a seed, and leave the generator alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()


def _head_of(name: str, module: nn.Module) -> str:
    """Return the name of the last linear layer."""
    parameters = dict(module.named_parameters())
    linear = [key for key, layer in module.named_modules() if key and isinstance(layer, nn.Linear)]
    if not linear or not {f"{linear[-1]}.weight", f"{linear[-1]}.bias"} <= set(parameters):
        raise ModelError(
            f"model {name!r}: its head is the last nn.Linear within it, which needs weights of its"
            " own and a bias"
        )
    return linear[-1]


def _tensors(
    module: nn.Module, head: str, name: str
) -> Iterator[tuple[str, tuple[int, ...], Kind, bool]]:
    """Yield name, shape, kind and whether it is the head's, layer by layer, the head last."""
    parameters = dict(module.named_parameters())  # tied ones once
    layers = {key: layer for key, layer in module.named_modules() if key != head}
    for place, layer in [*layers.items(), (head, module.get_submodule(head))]:
        prefix = f"{place}." if place else ""
        for key, value in layer.named_parameters(recurse=False):
            if prefix + key in parameters:
                yield prefix + key, tuple(value.shape), _kind(layer, value), place == head
        if isinstance(layer, NORMS[:3]) and layer.running_mean is not None:
            if layer.momentum is None:
                raise ModelError(f"model {name!r}: {place} needs a momentum, such as 0.1")
            for key in STATISTICS:
                yield prefix + key, tuple(getattr(layer, key).shape), "stat", False


def _kind(layer: nn.Module, value: Tensor) -> Kind:
    if isinstance(layer, NORMS):
        return "norm"
    if value.ndim > 1:
        return "conv" if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) else "linear"
    return "bias"


# -- whether a module can be a model ---------------------------------------------------------------


def _check(model: Model, whole: nn.Module) -> bool:
    """Run a small batch through the module and through the model; return whether training draws
    random numbers.
    """
    x = model.example()
    state = {name: value.detach().clone() for name, value in whole.state_dict().items()}
    bound = model.bind({s.name: state[s.name] for s in model.params})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        expected = whole.eval()(x)
        if tuple(expected.shape) != (2, model.classes):
            raise ModelError(
                f"model {model.name!r} returns {list(expected.shape)} for 2 samples of"
                f" {model.classes} classes; valid: [2, {model.classes}]"
            )
        features = bound.features(x)
        if features.ndim != 2 or not torch.allclose(bound.head(features), expected):
            raise ModelError(
                f"model {model.name!r} does something after its last linear layer"
                f" {model.head_name!r}; it must return what that layer returns, [B, classes]"
            )
        before = torch.get_rng_state()
        held = {name: buffer.clone() for name, buffer in model.body.named_buffers()}
        model.bind(bound.tensors, training=True).features(x)
        for name, buffer in model.body.named_buffers():
            if not torch.equal(buffer, held[name]):
                raise ModelError(
                    f"model {model.name!r} changes its buffer {name!r} in training, which all"
                    " clients share; valid: the statistics of batch norm, and constants"
                )
        return not torch.equal(before, torch.get_rng_state())
