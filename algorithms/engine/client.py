"""One client in the middle of local training: its tensors, gradients and optimiser.

A step is written for one client. The same code runs on plain tensors and within `torch.vmap`, where
every tensor stands for those of a stack of clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.model import ClientModel, Model
from repfl.algorithms.engine.optimiser import Optimiser
from repfl.algorithms.engine.params import Tensors

Extras = dict[str, Any]
"""A client's own tensors, and further models (`ClientModel`) that a loss reads."""
Loss = Callable[[ClientModel, Batch, Extras], Any]
"""The loss of one client, a scalar; with `has_aux` a pair of it and of tensors to keep."""
ClientState = dict[str, Tensors]
"""What a client holds, by kind: `params/NAME`, `momentum/NAME` and `extras`."""


def cross_entropy(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
    """Return the mean cross-entropy of a batch."""
    return F.cross_entropy(model(batch.x), batch.y)


def cross_entropy_eval(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
    """Return the same in evaluation mode: batch norm uses its statistics and leaves them alone."""
    return F.cross_entropy(model.eval()(batch.x), batch.y)


def described(value: object) -> str:
    """Return what a function returned, as a message has it."""
    shape = f" {list(value.shape)}" if isinstance(value, Tensor) else ""
    return "None" if value is None else f"a {type(value).__name__}{shape}"


def _scalar(value: Any, loss: Loss) -> Tensor:
    """Return a loss; refuse what has no gradient."""
    if isinstance(value, Tensor) and not value.dim() and value.requires_grad:
        return value
    text = f"the loss {getattr(loss, '__qualname__', 'function')} returned {described(value)}"
    raise TypeError(f"{text}; it returns a scalar that depends on model(...)")


class Client:
    """One client's models, extras and optimiser, for the steps of a local training."""

    def __init__(
        self,
        model: Model,
        state: ClientState,
        masks: Mapping[str, Tensor | None],
        optimiser: Optimiser,
        *,
        functional: bool = False,
    ) -> None:
        """`masks` names the tensors that train, each with the mask of its trainable entries
        (None: all). `functional`: within `torch.vmap`.
        """
        self._model, self.state, self.masks = model, state, masks
        self.optimiser, self._functional = optimiser, functional
        self.last_grad: Tensors = {}
        self.collected: Tensors = {}
        self._optimisers: dict[tuple[str, ...], torch.optim.Optimizer] = {}

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self.optimiser.lr

    @property
    def extras(self) -> Tensors:
        """The client's own tensors; a step may replace them."""
        return self.state["extras"]

    def tensors(self, of: str = "params") -> Tensors:
        """Return the named tensors of one of the client's models."""
        return self.state[f"params/{of}"]

    def model(self, of: str = "params", *, training: bool = True) -> ClientModel:
        """Return one of the client's models."""
        return self._model.bind(self.tensors(of), training=training)

    def collect(self, name: str, rows: Tensor) -> None:
        """Keep rows [B, ...] of this step; `Trained.collected` has those of all steps."""
        self.collected[name] = rows.detach()

    # -- gradients ---------------------------------------------------------------------------------

    def grad(
        self,
        batch: Batch,
        loss: Loss = cross_entropy,
        *,
        of: str = "params",
        extras: Sequence[str] = (),
        has_aux: bool = False,
    ) -> Any:
        """Return the gradient of a loss by the trainable tensors of a model, and by the named
        extras; with `has_aux` also what the loss returns beside it.
        """
        if not self.masks and not extras:  # a forward pass moves batch-norm statistics all the same
            with torch.no_grad():
                out = loss(self.model(of), batch, self.inputs(of))
            return ({}, out[1]) if has_aux else {}
        work = self._functional_grad if self._functional else self._autograd
        grads, aux = work(batch, loss, of, extras, has_aux)
        self.last_grad = {name: grads[name] for name in self.masks}
        return (grads, aux) if has_aux else grads

    def inputs(self, of: str) -> Extras:
        """Return the extras and the client's other models, which a loss may read."""
        names = [key.removeprefix("params/") for key in self.state if key.startswith("params/")]
        return {**self.extras, **{name: self.model(name) for name in names if name != of}}

    def _leaves(self, of: str, extras: Sequence[str]) -> Tensors:
        tensors = self.tensors(of)
        return {n: tensors[n] for n in self.masks} | {n: self.extras[n] for n in extras}

    def _autograd(
        self, batch: Batch, loss: Loss, of: str, extras: Sequence[str], has_aux: bool
    ) -> tuple[Tensors, Any]:
        leaves = self._leaves(of, extras)
        try:
            for leaf in leaves.values():
                leaf.requires_grad_(True)
            out = loss(self.model(of), batch, self.inputs(of))
            value, aux = out if has_aux else (out, None)
            value = _scalar(value, loss)
            grads = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        finally:
            for leaf in leaves.values():
                leaf.requires_grad_(False)
        pairs = zip(leaves.items(), grads, strict=True)
        return {n: torch.zeros_like(t) if g is None else g for (n, t), g in pairs}, aux

    def _functional_grad(
        self, batch: Batch, loss: Loss, of: str, extras: Sequence[str], has_aux: bool
    ) -> tuple[Tensors, Any]:
        def value(leaves: Tensors, state: ClientState) -> tuple[Tensor, Any]:
            client = Client(self._model, state, self.masks, self.optimiser)
            model = client.model(of).replace({n: leaves[n] for n in self.masks})
            out = loss(model, batch, client.inputs(of) | {n: leaves[n] for n in extras})
            number, aux = out if has_aux else (out, ())
            return _scalar(number, loss), aux

        # the state is an argument, since batch norm changes its statistics in place
        leaves = self._leaves(of, extras)
        return torch.func.grad(value, has_aux=True)(leaves, self.state)

    def clipped(self, grads: Tensors, limit: float, *, frozen_too: bool = False) -> Tensors:
        """Return gradients scaled down to a norm of at most `limit`; frozen entries do not count
        unless `frozen_too`.
        """
        counted = grads if frozen_too else self._masked(grads)
        norm = torch.stack([g.square().sum() for g in counted.values()]).sum().sqrt()
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        return {name: g * scale for name, g in counted.items()}

    def _masked(self, grads: Tensors) -> Tensors:
        masks = self.masks
        return {n: g if (mask := masks.get(n)) is None else g * mask for n, g in grads.items()}

    # -- the optimiser's step ----------------------------------------------------------------------

    def update(self, grads: Tensors, *, of: str = "params", scale: Tensor | None = None) -> None:
        """Take one step of the protocol's optimiser on the trainable entries, and on extras that
        have gradients; frozen entries feel neither momentum nor weight decay. `scale` stretches the
        step.
        """
        if not grads:
            return
        if self.optimiser.clip:
            grads = self.clipped(grads, self.optimiser.clip)
        if not self.optimiser.is_plain_sgd:
            self._torch_optim(grads, of, scale)
            return
        tensors = {**self.extras, **self.tensors(of)}
        momentum = self.state.setdefault(f"momentum/{of}", {})
        for name, grad in grads.items():
            step, tensor, mask = grad, tensors[name], self.masks.get(name)
            if self.optimiser.weight_decay:
                step = step.add(tensor, alpha=self.optimiser.weight_decay)
            if mask is not None:
                step = step * mask
            if self.optimiser.momentum:
                if name in momentum:
                    step = momentum[name].mul_(self.optimiser.momentum).add_(step)
                else:
                    step = momentum[name] = step.clone()
            if scale is not None:
                step = step * scale
            tensor.add_(step, alpha=-self.optimiser.lr)

    def _torch_optim(self, grads: Tensors, of: str, scale: Tensor | None) -> None:
        """Take the same step with an optimiser of `torch.optim`.

        It steps copies, from which the trainable entries are taken over: a step may replace the
        client's tensors, and frozen entries stay as they are.
        """
        named = {**self.extras, **self.tensors(of)}
        tensors = {name: named[name] for name in grads}
        key = (of, *grads)
        if key not in self._optimisers:
            copies = [tensor.clone() for tensor in tensors.values()]
            self._optimisers[key] = self.optimiser.build(copies)
        optimiser = self._optimisers[key]
        copies = optimiser.param_groups[0]["params"]
        for copy, (name, tensor) in zip(copies, tensors.items(), strict=True):
            copy.copy_(tensor)
            copy.grad = grads[name]
        optimiser.step()
        for copy, (name, tensor) in zip(copies, tensors.items(), strict=True):
            new, mask = copy, self.masks.get(name)
            if scale is not None:
                new = tensor + (copy - tensor) * scale
            tensor.copy_(new if mask is None else torch.where(mask, new, tensor))
