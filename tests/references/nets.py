"""`tiny` and `tiny-bn` as the modules that published code trains, and the way between these and our
flat vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation


class Tiny(nn.Module):
    """`tiny` with the layer names of ours, but for the head where published code looks for it under
    another.
    """

    def __init__(self, fed: Federation, head: str = "fc2") -> None:
        super().__init__()
        shape, self.last = {s.name: s.shape for s in fed.params}, head
        self.convolve(shape)
        self.fc1 = nn.Linear(*shape["fc1.weight"][::-1])
        setattr(self, head, nn.Linear(*shape["fc2.weight"][::-1]))

    def convolve(self, shape: dict[str, tuple[int, ...]]) -> None:
        out, into, size, _ = shape["conv1.weight"]
        self.conv1 = nn.Conv2d(into, out, size)

    def features(self, x: Tensor) -> Tensor:
        return F.relu(self.fc1(F.max_pool2d(F.relu(self.conv1(x)), 2).flatten(1)))

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, self.last)(self.features(x))


class TinyBN(Tiny):
    """`tiny-bn` likewise."""

    def convolve(self, shape: dict[str, tuple[int, ...]]) -> None:
        for place in ("1", "2"):
            out, into, size, _ = shape[f"conv{place}.weight"]
            setattr(self, f"conv{place}", nn.Conv2d(into, out, size, padding=1, bias=False))
            setattr(self, f"bn{place}", nn.BatchNorm2d(out))

    def features(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        return F.relu(self.fc1(F.relu(self.bn2(self.conv2(x))).flatten(1)))


KINDS = {"tiny": Tiny, "tiny-bn": TinyBN}
Rename = Callable[[str], str]


def headed(head: str) -> Rename:
    """The names of tensors in a network whose head has this one."""
    return lambda name: name.replace("fc2", head)


def split(fed: Federation, flat: Tensor, rename: Rename = str) -> dict[str, Tensor]:
    """A flat vector [D] as a state dict, copied."""
    return {rename(s.name): flat[s.place].view(s.shape).clone() for s in fed.params}


def join(fed: Federation, state: dict[str, Tensor], rename: Rename = str) -> Tensor:
    """A state dict as a flat vector [D]."""
    return torch.cat([state[rename(s.name)].detach().reshape(-1) for s in fed.params])


def load(fed: Federation, net: nn.Module, flat: Tensor, rename: Rename = str) -> nn.Module:
    """Put a flat vector into a network, leaving counters of batches alone."""
    net.load_state_dict(split(fed, flat, rename), strict=False)
    return net
