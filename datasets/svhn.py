"""SVHN cropped: 99,289 house-number digits of 32x32 pixels (train and test; the extra set is not
used).
"""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np

from repfl.datasets.core.canonical import Arrays
from repfl.datasets.core.formats import as_arrays, need
from repfl.datasets.core.registry import Dataset, Edition, File, Norm, register


def read(folder: Path) -> dict[str, Arrays]:
    """The official .mat files, where the digit 0 has label 10."""
    from scipy.io import loadmat

    splits = {}
    for split in ("train", "test"):
        content = loadmat(need(folder, f"{split}_32x32.mat"))
        labels = content["y"].reshape(-1).astype(np.int64)
        splits[split] = as_arrays(
            content["X"].transpose(3, 0, 1, 2), np.where(labels == 10, 0, labels)
        )  # X is [H, W, C, n]
    return splits


def files() -> tuple[File, ...]:
    """Addresses and checksums as torchvision knows them."""
    from torchvision.datasets import SVHN

    return tuple(
        File(name, (url,), f"md5:{md5}")
        for url, name, md5 in (SVHN.split_list[split] for split in ("train", "test"))
    )


register(
    Dataset(
        name="svhn",
        title="Street View House Numbers, cropped digits",
        homepage="http://ufldl.stanford.edu/housenumbers/",
        licence="non-commercial use only",
        citation=(
            "Y. Netzer et al.: Reading Digits in Natural Images with Unsupervised Feature Learning."
            " NIPS workshop, 2011."
        ),
        classes=tuple(string.digits),
        shape=(32, 32, 3),
        editions=(
            Edition(
                "official",
                {"train": 73_257, "test": 26_032},
                {
                    "train": (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
                    "test": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
                },
            ),
        ),
        read=read,
        files=files,
        own_norms={"fedobp": Norm(255.0, (0.4377, 0.4438, 0.4728), (0.1201, 0.1231, 0.1052))},
        size=246_347_329,
    )
)
