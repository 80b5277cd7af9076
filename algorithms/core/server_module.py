"""A module that the server trains, such as a hypernetwork or a generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, part

Forward = Callable[..., Tensor]
"""The module with its tensors of now; call it like the module."""


class ServerModule:
    """Any `nn.Module` at the server. Its tensors and those of its optimiser lie in a method's
    state, under `NAME/...` and `NAME.optim/...`, so that a resumed run goes on with them.
    """

    def __init__(self, name: str, build: Callable[[], nn.Module]) -> None:
        self.name, self.build = name, build
        with torch.device("meta"):
            self.module = build()

    def init(self, fed: Federation) -> State:
        """Return the module's initial tensors, drawn for the cell's seed."""
        with torch.random.fork_rng(devices=[]):
            seed = int(fed.rng(f"module/{self.name}").integers(2**62))
            torch.default_generator.manual_seed(seed)
            tensors = self.build().state_dict()
        return {self._key(n): t.to(fed.device, fed.dtype) for n, t in tensors.items()}

    def __call__(self, state: State, *inputs: Any) -> Tensor:
        """Return what the module makes of its inputs, without gradients."""
        with torch.no_grad():
            return functional_call(self.module, self._tensors(state), inputs)

    def step(
        self,
        state: State,
        loss: Callable[[Forward], Tensor],
        optimiser: type[torch.optim.Optimizer] = torch.optim.SGD,
        *,
        clip: float | None = None,
        **options: Any,
    ) -> State:
        """Return the entries of the state after one step of an optimiser of `torch.optim` on
        `loss(module)`; `clip` limits the norm of the gradient.
        """
        tensors = {name: t.clone() for name, t in self._tensors(state).items()}
        trained = {n: tensors[n].requires_grad_(True) for n, _ in self.module.named_parameters()}
        value = loss(lambda *inputs: functional_call(self.module, tensors, inputs))
        grads = torch.autograd.grad(value, list(trained.values()))
        optim = optimiser(list(trained.values()), **options)
        for (name, leaf), grad in zip(trained.items(), grads, strict=True):
            leaf.grad = grad
            if memory := part(state, f"{self.name}.optim/{name}/"):
                optim.state[leaf] = {k: v.clone() for k, v in memory.items()}
        if clip is not None:
            nn.utils.clip_grad_norm_(list(trained.values()), clip)
        optim.step()
        new = {self._key(name): t.detach() for name, t in tensors.items()}
        for name, leaf in trained.items():
            memory = {k: v for k, v in optim.state[leaf].items() if isinstance(v, Tensor)}
            new |= {f"{self.name}.optim/{name}/{k}": v for k, v in memory.items()}
        return new

    def _key(self, name: str) -> str:
        return f"{self.name}/{name}"

    def _tensors(self, state: State) -> dict[str, Tensor]:
        return {name: state[self._key(name)] for name in self.module.state_dict()}
