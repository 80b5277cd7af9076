"""SVHN cropped: 99,289 house-number digits of 32x32 pixels; the extra set is not used."""

from __future__ import annotations

import string
from pathlib import Path

from repfl.datasets.core.files.readers import as_arrays, find_official
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, Norm, register


def read(folder: Path) -> dict[str, Arrays]:
    """Read the official .mat files with torchvision, which turns label 10 into the digit 0."""
    from torchvision.datasets import SVHN

    splits = {}
    for split in ("train", "test"):
        _, name, md5 = SVHN.split_list[split]
        part = SVHN(find_official(folder, name, md5=md5).parent, split)
        splits[split] = as_arrays(part.data.transpose(0, 2, 3, 1), part.labels)
    return splits


def files() -> tuple[File, ...]:
    """Return addresses and checksums as torchvision knows them."""
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
        extra_norms={"fedobp": Norm(255.0, (0.4377, 0.4438, 0.4728), (0.1201, 0.1231, 0.1052))},
        size=246_347_329,
    )
)
