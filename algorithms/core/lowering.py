"""How a device carries out the arithmetic of training: how many clients at once, recorded or not,
by which kernels, how precisely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from repfl.algorithms.core import ops
from repfl.algorithms.core.graphs import CudaLane, Lane
from repfl.algorithms.core.ops import Convolution

Precision = Literal["default", "fp32", "tf32", "bf16", "fp64"]
"""default: on a GPU TF32 in clients' convolutions and matrix products alike, so that it means the
same whichever of them a convolution becomes; fp32: no TF32 anywhere; bf16: forward passes in
bfloat16, everything else in float32. Servers' algebra is never rounded to TF32.
"""


@dataclass(frozen=True)
class Lowering:
    """The choices that change speed and rounding, and nothing else. They are recorded with every
    result.
    """

    chunk: int = 1
    """Clients in one kernel."""
    lanes: int = 0
    """Chunks side by side on a GPU, their steps recorded as graphs; 0: one after the other, step by
    step.
    """
    conv: Convolution = "auto"
    """Which kernels a convolution takes."""
    precision: Precision = "default"
    lane: Callable[[], Lane] | None = None
    """Makes lanes; none: CUDA streams."""

    @property
    def together(self) -> int:
        """Clients that a device works on at a time."""
        return self.chunk * max(self.lanes, 1)

    def lanes_on(self, device: torch.device) -> Callable[[], Lane]:
        """What makes a new lane on a device."""
        return self.lane or (lambda: CudaLane(device))

    @contextmanager
    def active(self, device: torch.device) -> Iterator[None]:
        """Clients compute like this inside; whoever is outside computes as before."""
        with ops.convolution(self.conv), _tensor_cores(self.precision, device):
            yield


PRECISIONS: tuple[str, ...] = get_args(Precision)


@contextmanager
def _tensor_cores(precision: Precision, device: torch.device) -> Iterator[None]:
    """Allow or forbid TF32 in convolutions and matrix products."""
    if device.type != "cuda" or precision not in ("default", "fp32", "tf32"):
        yield
        return
    wanted = "ieee" if precision == "fp32" else "tf32"
    switches = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = wanted
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value
