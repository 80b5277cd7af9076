"""Mini-ImageNet: 100 classes of ImageNet with 600 images of 84x84 pixels each.

The few-shot split by classes is not used: all images are pooled, and classes are in the order of
their WordNet identifiers.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from repfl.datasets.cifar import IMAGENET
from repfl.datasets.core.files.readers import as_arrays, find_official
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, register, words

PARTS = (
    ("mini-imagenet-cache-train.pkl", "ee4e80dc7b716f3ceec891d199b5277a", "9g8c6w345s2ek03"),
    ("mini-imagenet-cache-validation.pkl", "c1145a80890b88d54a67d6e0022d53a5", "ip1b7se3gij3r1b"),
    ("mini-imagenet-cache-test.pkl", "389b6c59d348b2e1ae9610f00a5e6724", "ye9jeb5tyz0x01b"),
)
CLASSES = words(
    """n01532829 n01558993 n01704323 n01749939 n01770081 n01843383 n01855672 n01910747 n01930112
    n01981276 n02074367 n02089867 n02091244 n02091831 n02099601 n02101006 n02105505 n02108089
    n02108551 n02108915 n02110063 n02110341 n02111277 n02113712 n02114548 n02116738 n02120079
    n02129165 n02138441 n02165456 n02174001 n02219486 n02443484 n02457408 n02606052 n02687172
    n02747177 n02795169 n02823428 n02871525 n02950826 n02966193 n02971356 n02981792 n03017168
    n03047690 n03062245 n03075370 n03127925 n03146219 n03207743 n03220513 n03272010 n03337140
    n03347037 n03400231 n03417042 n03476684 n03527444 n03535780 n03544143 n03584254 n03676483
    n03770439 n03773504 n03775546 n03838899 n03854065 n03888605 n03908618 n03924679 n03980874
    n03998194 n04067472 n04146614 n04149813 n04243546 n04251144 n04258138 n04275548 n04296562
    n04389033 n04418357 n04435653 n04443257 n04509417 n04515003 n04522168 n04596742 n04604644
    n04612504 n06794110 n07584110 n07613480 n07697537 n07747607 n09246464 n09256479 n13054560
    n13133613"""
)


def read(folder: Path) -> dict[str, Arrays]:
    """Read the three pickled caches, once their MD5 has been checked."""
    images, labels = [], []
    for name, md5, _ in PARTS:
        path = find_official(folder, name, name.replace("validation", "val"), md5=md5)
        with path.open("rb") as file:
            content = pickle.load(file, encoding="latin1")
        positions = np.full(len(content["image_data"]), -1, np.int64)
        for identifier, members in content["class_dict"].items():
            positions[members] = CLASSES.index(identifier)
        images.append(content["image_data"])
        labels.append(positions)
    return {"all": as_arrays(np.concatenate(images), np.concatenate(labels))}


def files() -> tuple[File, ...]:
    """Return the caches of the few-shot benchmarks, at learn2learn's two addresses."""
    first, second = "https://zenodo.org/records/7978538/files/", "https://www.dropbox.com/s/"
    return tuple(
        File(name, (f"{first}{name}?download=1", f"{second}{key}/{name}?dl=1"), f"md5:{md5}")
        for name, md5, key in PARTS
    )


register(
    Dataset(
        name="mini_imagenet",
        title="Mini-ImageNet",
        homepage="https://zenodo.org/records/7978538",
        licence="ImageNet terms of access: non-commercial research and education",
        citation="O. Vinyals et al.: Matching Networks for One Shot Learning. NIPS 2016.",
        classes=CLASSES,
        shape=(84, 84, 3),
        editions=(Edition("official", {"all": 60_000}, {"all": (600,) * 100}),),
        read=read,
        files=files,
        extra_norms={"imagenet": IMAGENET},
        size=1_791_769_987,
        resize=True,
    )
)
