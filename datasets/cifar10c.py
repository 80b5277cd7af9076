"""CIFAR-10-C: the CIFAR-10 test photographs under 15 corruptions at 5 severities each (750,000
images, 2.3 GB).

The group of an image is its corruption and severity, its source is the photograph. So a partition
can keep a photograph from being in the train part of one client and the test part of another.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.datasets.cifar import IMAGENET, TEN
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.readers import find_file
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, register, words

CORRUPTIONS = words(
    """gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow
    frost fog brightness contrast elastic_transform pixelate jpeg_compression"""
)
SEVERITIES = 5


def read(folder: Path) -> dict[str, Arrays]:
    """Read one .npy file per corruption: five times the CIFAR-10 test set, by severity."""
    labels = np.load(find_file(folder, "labels.npy"), allow_pickle=False)
    labels = labels.reshape(-1).astype(np.int64)
    photos = len(labels) // SEVERITIES
    if not np.array_equal(labels, np.tile(labels[:photos], SEVERITIES)):
        raise DataError(f"{folder}: labels.npy is not the same for every severity")
    images = np.empty((len(CORRUPTIONS) * len(labels), 32, 32, 3), np.uint8)
    for k, name in enumerate(CORRUPTIONS):
        images[k * len(labels) : (k + 1) * len(labels)] = np.load(
            find_file(folder, f"{name}.npy"), mmap_mode="r", allow_pickle=False
        )
    groups = np.repeat(np.arange(len(CORRUPTIONS) * SEVERITIES), photos)
    source_ids = np.tile(np.arange(photos), len(CORRUPTIONS) * SEVERITIES)
    return {"all": Arrays(images, np.tile(labels, len(CORRUPTIONS)), groups, source_ids)}


def files() -> tuple[File, ...]:
    """Return the authors' archive, at two addresses of one repository."""
    record = "2535967"
    urls = (
        f"https://zenodo.org/records/{record}/files/CIFAR-10-C.tar?download=1",
        f"https://zenodo.org/api/records/{record}/files/CIFAR-10-C.tar/content",
    )
    return (File("CIFAR-10-C.tar", urls, "md5:56bf5dcef84df0e2308c6dcbcbbd8499"),)


register(
    Dataset(
        name="cifar10c",
        title="CIFAR-10-C (15 corruptions, 5 severities)",
        homepage="https://zenodo.org/records/2535967",
        licence="CC BY 4.0",
        citation=(
            "D. Hendrycks, T. Dietterich: Benchmarking Neural Network Robustness to Common"
            " Corruptions and Perturbations. ICLR 2019."
        ),
        classes=TEN,
        shape=(32, 32, 3),
        editions=(Edition("official", {"all": 750_000}, {"all": (75_000,) * 10}),),
        read=read,
        files=files,
        groups=tuple(
            f"{name}/{severity}" for name in CORRUPTIONS for severity in range(1, SEVERITIES + 1)
        ),
        extra_norms={"imagenet": IMAGENET},
        size=2_918_471_680,
    )
)
