"""Digits: 1,797 real handwritten digits of 8x8 pixels that come with scikit-learn.

The set has no official split. Ours takes, of every class, the first 60 samples in canonical order
(an order by hash, so as good as random) as the test split of 600 and the other 1,197 for training.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from repfl.datasets.core.canonical import Arrays, canonical_order
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import Dataset, Edition, Norm, register

TEST_PER_CLASS = 60


def read(_: Path) -> dict[str, Arrays]:
    """The images scikit-learn carries, cut into our split."""
    table = np.loadtxt(
        _file(), delimiter=",", dtype=np.int64
    )  # [n, 65]: 64 pixels of 0..16, then the label
    images, labels = table[:, :64].astype(np.uint8).reshape(-1, 8, 8, 1), table[:, 64]
    order = canonical_order(Arrays(images, labels))
    images, labels = images[order], labels[order]
    starts = np.searchsorted(labels, np.arange(10))
    test = np.arange(len(labels)) - starts[labels] < TEST_PER_CLASS  # rank within the class
    return {
        "train": Arrays(images[~test], labels[~test]),
        "test": Arrays(images[test], labels[test]),
    }


def _file() -> Path:
    """The table inside scikit-learn, found without importing the library, which takes seconds."""
    spec = find_spec("sklearn")
    path = (
        Path((spec.submodule_search_locations or [""])[0] if spec else "")
        / "datasets"
        / "data"
        / "digits.csv.gz"
    )
    if not path.is_file():
        raise DataError(
            "digits come with scikit-learn, which is not installed or lacks its data: install"
            " scikit-learn"
        )
    return path


register(
    Dataset(
        name="digits",
        title="Optical Recognition of Handwritten Digits (test part)",
        homepage="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        licence="CC BY 4.0",
        citation=(
            "E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits. UCI Machine"
            " Learning Repository, 1998."
        ),
        classes=tuple("0123456789"),
        shape=(8, 8, 1),
        scale=16.0,
        editions=(
            Edition(
                "scikit-learn",
                {"train": 1197, "test": 600},
                {"train": (118, 122, 117, 123, 121, 122, 121, 119, 114, 120), "test": (60,) * 10},
                {
                    "train": "ead7e161ca0498e4fde2e92fad58ccd356b4aef18e7c641a363e7ef416b62118",
                    "test": "bc16ac7a7e00b4589ebcaee300cb26a42f1a168bd49d116303cec40abe935580",
                },
            ),
        ),
        read=read,
        own_norms={"standard": Norm(16.0, (0.3052,), (0.3758,))},  # of the training split
        embedded=True,
    )
)
