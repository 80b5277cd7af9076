"""The precision in which a device computes what clients train and are scored with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch

Precision = Literal["default", "fp32", "fp64"]
"""default: on a GPU TF32 in clients' convolutions and matrix products alike; fp32: no TF32
anywhere. Servers' algebra is never rounded to TF32.
"""
PRECISIONS: tuple[str, ...] = get_args(Precision)


@contextmanager
def tensor_cores(precision: str, device: torch.device) -> Iterator[None]:
    """Allow or forbid TF32 in convolutions and matrix products."""
    if device.type != "cuda" or precision == "fp64":
        yield
        return
    value = "ieee" if precision == "fp32" else "tf32"
    switches = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = value
    try:
        yield
    finally:
        for switch, old in zip(switches, before, strict=True):
            switch.fp32_precision = old
