"""Office-Home: 15,588 images of 65 everyday objects in four domains, resized to 224x224."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.datasets.cifar import IMAGENET
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.readers import NothingFoundError, list_classes, load_images, plain
from repfl.datasets.core.registry import Arrays, Dataset, Edition, register, words

DOMAINS = {"Art": 2427, "Clipart": 4365, "Product": 4439, "Real World": 4357}
SHAPE = (224, 224, 3)
CLASSES = words(
    """Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair
    Clipboards Computer Couch Curtains Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops
    Flowers Folder Fork Glasses Hammer Helmet Kettle Keyboard Knives Lamp_Shade Laptop Marker
    Monitor Mop Mouse Mug Notebook Oven Pan Paper_Clip Pen Pencil Postit_Notes Printer Push_Pin
    Radio Refrigerator Ruler Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon TV Table
    Telephone ToothBrush Toys Trash_Can Webcam"""
)
MANUAL = (
    "its terms ask you to fetch it yourself: download OfficeHomeDataset_10072016.zip from"
    " https://www.hemanthdv.org/officeHomeDataset.html, then run `repfl data import office_home"
    " --from OfficeHomeDataset_10072016.zip`"
)


def read(folder: Path, domains: dict[str, int] = DOMAINS) -> dict[str, Arrays]:
    """Read `<domain>/<class>/*.jpg`, the domains anywhere under the folder."""
    files: list[tuple[Path, int]] = []
    groups: list[int] = []
    for group, (name, published) in enumerate(domains.items()):
        roots = [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_dir() and plain(path.name) == plain(name)
        ]
        if not roots:
            raise NothingFoundError(f"{folder} holds no folder {name!r}")
        members = list_classes(roots[0], CLASSES)
        if len(members) != published:
            raise DataError(
                f"{roots[0]} holds {len(members):,} images, {published:,} are published"
            )
        files += members
        groups += [group] * len(members)
    images = load_images([path for path, _ in files], SHAPE, resize=True)
    labels = np.array([label for _, label in files], np.int64)
    return {"all": Arrays(images, labels, np.array(groups, np.int64))}


register(
    Dataset(
        name="office_home",
        title="Office-Home",
        homepage="https://www.hemanthdv.org/officeHomeDataset.html",
        licence="non-commercial research; the images belong to their owners",
        citation=(
            "H. Venkateswara et al.: Deep Hashing Network for Unsupervised Domain Adaptation. CVPR"
            " 2017."
        ),
        classes=CLASSES,
        shape=SHAPE,
        editions=(Edition("official", {"all": 15_588}),),
        read=read,
        manual=MANUAL,
        groups=tuple(DOMAINS),
        extra_norms={"imagenet": IMAGENET},
        resize=True,
    )
)
