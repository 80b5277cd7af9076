"""CIFAR-10 and CIFAR-100: 60,000 photographs of 32x32 pixels each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from repfl.datasets.core.canonical import Arrays
from repfl.datasets.core.formats import need, unpickle
from repfl.datasets.core.registry import Dataset, Edition, File, Norm, register, words

IMAGENET = Norm(255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
PAPER = (
    "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images. Technical report,"
    " University of Toronto, 2009."
)
LICENCE = "none stated by the authors; public for research, cite the technical report"
TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HUNDRED = words(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab
    crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm"""
)


def read(folder: Path, parts: dict[str, tuple[str, ...]], key: str) -> dict[str, Arrays]:
    """The official pickled batches."""
    splits = {}
    for split, files in parts.items():
        images, labels = [], []
        for name in files:
            with need(folder, name).open("rb") as file:
                batch = unpickle(file)
            # to [n, H, W, C]
            images.append(
                np.asarray(batch["data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            )
            labels.append(np.asarray(batch[key], np.int64))
        splits[split] = Arrays(np.concatenate(images), np.concatenate(labels))
    return splits


def _files(name: str) -> tuple[File, ...]:
    """Address and checksum as torchvision knows them."""
    from torchvision import datasets as official

    source = getattr(official, name)
    return (File(source.filename, (source.url,), f"md5:{source.tgz_md5}"),)


register(
    Dataset(
        name="cifar10",
        title="CIFAR-10",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence=LICENCE,
        citation=PAPER,
        classes=TEN,
        shape=(32, 32, 3),
        editions=(
            Edition(
                "official",
                {"train": 50_000, "test": 10_000},
                {"train": (5000,) * 10, "test": (1000,) * 10},
                {
                    "train": "367eab66eeca2982be603e3e2e7b4b744c1fe37a08180a06051132fe9b3f92df",
                    "test": "3c7440e4326fdb8defd96b765c26a8b3ded8eee4f3f90cf8ed3282f82250a2d5",
                },
            ),
        ),
        read=partial(
            read,
            parts={"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)},
            key="labels",
        ),
        files=partial(_files, "CIFAR10"),
        own_norms={
            "fedobp": Norm(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
            "dis-pfl": Norm(255.0, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
            "imagenet": IMAGENET,  # FedSelect
        },
        size=170_498_071,
    )
)

register(
    Dataset(
        name="cifar100",
        title="CIFAR-100 (fine labels)",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence=LICENCE,
        citation=PAPER,
        classes=HUNDRED,
        shape=(32, 32, 3),
        editions=(
            Edition(
                "official",
                {"train": 50_000, "test": 10_000},
                {"train": (500,) * 100, "test": (100,) * 100},
                {
                    "train": "475e20cb26ac8d3b8ee6fef13f4b21e49f63b884c305e2b66bb5a156f13818d7",
                    "test": "f5bbeb1f5312b711c6a3811fe2c334a8e247b177aa9d307ebef0750694407735",
                },
            ),
        ),
        read=partial(read, parts={"train": ("train",), "test": ("test",)}, key="fine_labels"),
        files=partial(_files, "CIFAR100"),
        own_norms={
            "fedpurin": Norm(255.0, (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
            "fedobp": Norm(255.0, (0.5071, 0.4865, 0.4409), (0.2009, 0.1984, 0.2023)),
            "dis-pfl": Norm(255.0, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
            "imagenet": IMAGENET,
        },
        size=169_001_437,
    )
)
