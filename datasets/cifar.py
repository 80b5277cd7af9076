"""CIFAR-10 and CIFAR-100: 60,000 photographs of 32x32 pixels each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from repfl.datasets.core.files.readers import as_arrays, find_file, find_official
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, Norm, register, words

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


def read(folder: Path, source: str) -> dict[str, Arrays]:
    """Read the official pickled batches with torchvision, once their MD5 has been checked."""
    from torchvision import datasets as official

    kind = getattr(official, source)
    meta = (kind.meta["filename"], kind.meta["md5"])
    root = find_file(folder, kind.test_list[0][0]).parent
    for name, md5 in (*kind.train_list, *kind.test_list, meta):
        find_official(root, name, md5=md5)
    in_place = type(source, (kind,), {"base_folder": ""})
    parts = {split: in_place(root, train=split == "train") for split in ("train", "test")}
    return {split: as_arrays(part.data, np.array(part.targets)) for split, part in parts.items()}


def _files(source: str) -> tuple[File, ...]:
    """Return address and checksum as torchvision knows them."""
    from torchvision import datasets as official

    kind = getattr(official, source)
    return (File(kind.filename, (kind.url,), f"md5:{kind.tgz_md5}"),)


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
        read=partial(read, source="CIFAR10"),
        files=partial(_files, "CIFAR10"),
        extra_norms={
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
        read=partial(read, source="CIFAR100"),
        files=partial(_files, "CIFAR100"),
        extra_norms={
            "fedpurin": Norm(255.0, (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
            "fedobp": Norm(255.0, (0.5071, 0.4865, 0.4409), (0.2009, 0.1984, 0.2023)),
            "dis-pfl": Norm(255.0, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
            "imagenet": IMAGENET,
        },
        size=169_001_437,
    )
)
