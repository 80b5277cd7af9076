"""Residual networks with basic blocks, in the two forms that the papers use.

`resnet8`, `resnet10`, `resnet18`: the ImageNet stem (7x7 stride 2, max pooling) and batch norm, as
torchvision builds them. `resnet18-gn`: the CIFAR stem (3x3 stride 1, no pooling) and GroupNorm of
32 groups, as the Dis-PFL code builds it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from repfl.algorithms.core import ops
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.model import Model, Spec, affine, batch_norm, conv, dense
from repfl.algorithms.core.ops import Mode

GROUPS = 32
Norm = Callable[[Tensor, Params, str, Mode], Tensor]
NormSpecs = Callable[[str, int], list[Spec]]
Blocks = list[tuple[str, int, bool]]
"""Per basic block: its name, the stride of its first convolution, and whether its shortcut is
projected.
"""


def resnet8(channels: int, size: int, classes: int) -> Model:
    """Three stages of one block; 1,235,274 parameters for RGB and 10 classes."""
    return _resnet("resnet8", channels, classes, (1, 1, 1))


def resnet10(channels: int, size: int, classes: int) -> Model:
    """Four stages of one block; 4,957,092 parameters for RGB and 100 classes."""
    return _resnet("resnet10", channels, classes, (1, 1, 1, 1))


def resnet18(channels: int, size: int, classes: int) -> Model:
    """Four stages of two blocks; 11,181,642 parameters for RGB and 10 classes."""
    return _resnet("resnet18", channels, classes, (2, 2, 2, 2))


def resnet18_gn(channels: int, size: int, classes: int) -> Model:
    """Four stages of two blocks with GroupNorm; 11,173,962 parameters for RGB and 10 classes."""
    return _resnet("resnet18-gn", channels, classes, (2, 2, 2, 2), cifar=True)


def _resnet(
    name: str, channels: int, classes: int, depths: tuple[int, ...], cifar: bool = False
) -> Model:
    norm_specs: NormSpecs = affine if cifar else batch_norm
    specs = conv("stem", channels, 64, 3 if cifar else 7, bias=False, he=not cifar) + norm_specs(
        "stem_norm", 64
    )
    blocks: Blocks = []
    width_in = 64
    for stage, depth in enumerate(depths):
        for index in range(depth):
            width, stride = 64 << stage, 2 if stage and not index else 1
            block = f"layers.{stage}.{index}"
            project = stride > 1 or width_in != width
            specs += _block_specs(block, width_in, width, project, norm_specs, he=not cifar)
            blocks.append((block, stride, project))
            width_in = width
    return Model(
        name, (*specs, *dense("fc", width_in, classes, head=True)), _body(blocks, cifar), "fc"
    )


def _block_specs(
    block: str, width_in: int, width: int, project: bool, norm: NormSpecs, *, he: bool
) -> list[Spec]:
    specs = conv(f"{block}.conv1", width_in, width, 3, bias=False, he=he) + norm(
        f"{block}.norm1", width
    )
    specs += conv(f"{block}.conv2", width, width, 3, bias=False, he=he) + norm(
        f"{block}.norm2", width
    )
    if project:
        specs += conv(f"{block}.shortcut", width_in, width, 1, bias=False, he=he) + norm(
            f"{block}.shortcut_norm", width
        )
    return specs


def _group_norm(x: Tensor, p: Params, name: str, mode: Mode) -> Tensor:
    return ops.group_norm(x, p[f"{name}.weight"], p[f"{name}.bias"], GROUPS)


def _body(blocks: Blocks, cifar: bool) -> Callable[[Params, Tensor, Mode], Tensor]:
    norm: Norm = _group_norm if cifar else ops.batch_norm

    def body(p: Params, x: Tensor, mode: Mode) -> Tensor:
        x = ops.conv2d(x, p["stem.weight"], stride=1 if cifar else 2, padding=1 if cifar else 3)
        x = norm(x, p, "stem_norm", mode)
        x = (x if cifar else ops.max_pool(x, 3, 2, 1)).relu()
        for block, stride, project in blocks:
            out = ops.conv2d(x, p[f"{block}.conv1.weight"], stride=stride, padding=1)
            out = norm(out, p, f"{block}.norm1", mode).relu()
            out = norm(
                ops.conv2d(out, p[f"{block}.conv2.weight"], padding=1), p, f"{block}.norm2", mode
            )
            if project:
                x = norm(
                    ops.conv2d(x, p[f"{block}.shortcut.weight"], stride=stride),
                    p,
                    f"{block}.shortcut_norm",
                    mode,
                )
            x = (out + x).relu()
        return ops.global_average(x)

    return body
