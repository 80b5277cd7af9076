"""MNIST, Fashion-MNIST and EMNIST ByClass: grey images of 28x28 pixels in idx files.

EMNIST's images are mirrored and turned, as in the official files and in torchvision.
"""

from __future__ import annotations

import string
from functools import partial
from pathlib import Path

from repfl.datasets.core.files.readers import as_arrays, find_file, read_idx
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, Norm, get, register

CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def read(folder: Path, name: str, train: str, test: str) -> dict[str, Arrays]:
    """Read the official idx files, gzipped or not; older copies have a dot before idx."""
    splits, max_bytes = {}, get(name).max_bytes
    for split, prefix in (("train", train), ("test", test)):
        images, labels = (
            _idx(folder, f"{prefix}-{what}") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
        )
        splits[split] = as_arrays(read_idx(images, max_bytes), read_idx(labels, max_bytes))
    return splits


def _idx(folder: Path, name: str) -> Path:
    dotted = name.replace("-idx", ".idx")
    return find_file(folder, name, f"{name}.gz", dotted, f"{dotted}.gz")


def _files(name: str, mirrors: tuple[str, ...] = ()) -> tuple[File, ...]:
    """Return addresses and checksums as torchvision knows them, and further mirrors."""
    from torchvision import datasets as official

    source = getattr(official, name)
    bases = (*source.mirrors, *mirrors)
    return tuple(
        File(file, tuple(base + file for base in bases), f"md5:{md5}")
        for file, md5 in source.resources
    )


def _emnist() -> tuple[File, ...]:
    from torchvision.datasets import EMNIST

    return (File("gzip.zip", (EMNIST.url,), f"md5:{EMNIST.md5}"),)


register(
    Dataset(
        name="mnist",
        title="MNIST",
        homepage="http://yann.lecun.com/exdb/mnist/",
        licence="CC BY-SA 3.0",
        citation=(
            "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-Based Learning Applied to"
            " Document Recognition. Proc. IEEE, 1998."
        ),
        classes=tuple(string.digits),
        shape=(28, 28, 1),
        editions=(
            Edition(
                "official",
                {"train": 60_000, "test": 10_000},
                {
                    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
                    "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
                },
                {
                    "train": "52bedcb3017f2a820da1cd8da39e567acd137fe73f988fa8d9648ecaddf49b37",
                    "test": "9dc01a68a8975da11c8a024263fd1dc9b6778e9f39ef9c254392563facbbd6ef",
                },
            ),
        ),
        read=partial(read, name="mnist", train="train", test="t10k"),
        files=partial(_files, "MNIST"),
        extra_norms={"fedobp": Norm(255.0, (0.1307,), (0.3015,))},
        size=11_594_722,
    )
)

register(
    Dataset(
        name="fashion_mnist",
        title="Fashion-MNIST",
        homepage="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        citation=(
            "H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, a Novel Image Dataset for Benchmarking."
            " arXiv 1708.07747."
        ),
        classes=CLOTHES,
        shape=(28, 28, 1),
        editions=(
            Edition(
                "official",
                {"train": 60_000, "test": 10_000},
                {"train": (6000,) * 10, "test": (1000,) * 10},
                {
                    "train": "8ba66fba99fca19bb5ad790367ab137c24662733c2666bd4580f08bb38fa3e45",
                    "test": "ff4a88069005e722b77e8876959a2ebf057b6a69e2d1a0deeb56bcf2943be1ab",
                },
            ),
        ),
        read=partial(read, name="fashion_mnist", train="train", test="t10k"),
        files=partial(
            _files,
            "FashionMNIST",
            (
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            ),
        ),
        extra_norms={"fedobp": Norm(255.0, (0.2860,), (0.3205,))},
        size=30_878_645,
    )
)

register(
    Dataset(
        name="emnist_byclass",
        title="EMNIST ByClass",
        homepage="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        licence="US government work, public domain; cite the paper",
        citation=(
            "G. Cohen, S. Afshar, J. Tapson, A. van Schaik: EMNIST, an extension of MNIST to"
            " handwritten letters. arXiv 1702.05373."
        ),
        classes=tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase),
        shape=(28, 28, 1),
        editions=(Edition("official", {"train": 697_932, "test": 116_323}),),
        read=partial(
            read, name="emnist_byclass", train="emnist-byclass-train", test="emnist-byclass-test"
        ),
        files=_emnist,
        extra_norms={"fedobp": Norm(255.0, (0.1736,), (0.3248,))},
        size=561_753_746,
    )
)
