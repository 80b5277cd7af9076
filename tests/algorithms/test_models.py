"""Models have the published sizes and compute what the ordinary PyTorch modules compute."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from repfl.algorithms import models
from repfl.algorithms.engine.rng import Streams

PUBLISHED = [
    ("cnn4", 3, 32, 10, 878_538),
    ("cnn4", 3, 32, 100, 924_708),
    ("cnn4", 1, 28, 10, 582_026),
    ("cnn4", 1, 28, 62, 608_702),
    ("cnn4", 1, 28, 11, 582_539),
    ("resnet8", 1, 28, 10, 1_229_002),
    ("resnet8", 3, 32, 10, 1_235_274),
    ("resnet10", 3, 32, 100, 4_957_092),
    ("lenet5", 1, 28, 11, 44_555),
    ("resnet18", 3, 32, 10, 11_181_642),
    ("resnet18-gn", 3, 32, 10, 11_173_962),
    ("resnet18-gn", 3, 32, 100, 11_220_132),
]


@pytest.mark.parametrize(("name", "channels", "size", "classes", "count"), PUBLISHED)
def test_parameter_count_is_the_published_one(
    name: str, channels: int, size: int, classes: int, count: int
) -> None:
    net = models.build(name, channels=channels, size=size, classes=classes)
    assert net.params.parameters == count


@pytest.mark.parametrize(
    ("name", "affine", "stats", "head"),
    [("resnet8", 2_688, 2_688, 2_570), ("resnet18", 9_600, 9_600, 5_130), ("cnn4", 0, 0, 5_130)],
)
def test_parts_of_the_layout_have_the_published_sizes(
    name: str, affine: int, stats: int, head: int
) -> None:
    layout = models.build(name, channels=3, size=32, classes=10).params
    sizes = [int(part.sum()) for part in (layout.norm, layout.stats, layout.head)]
    assert sizes == [affine, stats, head]


def _torchvision_names(name: str) -> str:
    """The name that torchvision's ResNet gives a tensor."""
    theirs = {"stem_norm": "bn1", "stem": "conv1", "norm1": "bn1", "norm2": "bn2"}
    theirs |= {"shortcut_norm": "downsample.1", "shortcut": "downsample.0"}
    for ours, word in theirs.items():
        name = name.replace(ours, word)
    if name.startswith("layers."):
        _, stage, rest = name.split(".", 2)
        return f"layer{int(stage) + 1}.{rest}"
    return name


@pytest.mark.parametrize("train", [False, True])
def test_resnet18_computes_what_torchvision_computes(train: bool) -> None:
    from torchvision.models import resnet18

    ours = models.build("resnet18", channels=3, size=64, classes=10)
    params = ours.params.unflatten(ours.initial(Streams(0)).double())
    theirs = resnet18(num_classes=10).double().train(train)
    theirs.load_state_dict({_torchvision_names(n): t for n, t in params.items()}, strict=False)
    x = torch.from_numpy(Streams(1).at("x").standard_normal((2, 3, 64, 64)))
    logits = ours.bind(params, training=train)(x)
    torch.testing.assert_close(logits, theirs(x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(params["stem_norm.running_var"], theirs.bn1.running_var)


def test_cnn4_is_the_published_architecture() -> None:
    net = models.build("cnn4", channels=3, size=32, classes=10)
    p = net.params.unflatten(net.initial(Streams(0)))
    images = torch.from_numpy(Streams(1).at("x").standard_normal((2, 3, 32, 32))).float()
    x = F.max_pool2d(F.relu(F.conv2d(images, p["conv1.weight"], p["conv1.bias"])), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p["conv2.weight"], p["conv2.bias"])), 2)
    x = F.relu(F.linear(x.flatten(1), p["fc1.weight"], p["fc1.bias"]))
    x = F.linear(x, p["classifier.weight"], p["classifier.bias"])
    torch.testing.assert_close(net.bind(p)(images), x)


def test_default_initialisation_has_pytorchs_bounds() -> None:
    net = models.build("cnn4", channels=3, size=32, classes=10)
    params = net.params.unflatten(net.initial(Streams(0)))
    bound = (3 * 25) ** -0.5
    assert 0.99 * bound < params["conv1.weight"].abs().max() <= bound
    assert params["conv1.bias"].abs().max() <= bound


@pytest.mark.parametrize("name", ["tiny", "tiny-bn"])
def test_a_default_type_of_float64_changes_no_model(name: str) -> None:
    expected = models.build(name, channels=1, size=8, classes=4).initial(Streams(0))
    torch.set_default_dtype(torch.float64)
    try:
        net = models.build(name, channels=1, size=8, classes=4)
        assert torch.equal(net.initial(Streams(0)), expected)
    finally:
        torch.set_default_dtype(torch.float32)


SIZES = {"cnn4": 32, "lenet5": 28, "mlp": 8, "resnet8": 32, "resnet18-gn": 32, "tiny-bn": 8}
SIZES |= {"vit4": 8}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_stacked_clients_compute_what_single_ones_do(name: str, size: int) -> None:
    net = models.build(name, channels=1, size=size, classes=5)
    net = net.at(torch.device("cpu"), torch.float64)
    flat = torch.stack([net.initial(Streams(0), client) for client in range(2)]).double()
    x = torch.from_numpy(Streams(1).at("x").standard_normal((2, 3, 1, size, size)))
    forward = torch.vmap(lambda named, x: net.bind(named, training=True)(x))
    stacked = forward(net.params.unflatten(flat), x)
    for client in range(2):
        alone = net.bind(net.params.unflatten(flat[client]), training=True)(x[client])
        torch.testing.assert_close(stacked[client], alone, rtol=1e-9, atol=1e-9)
