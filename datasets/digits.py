"""Digits: 1,797 handwritten digits of 8x8 pixels that come with scikit-learn.

There is no official split. Ours tests on the first 60 samples of every class in canonical order,
which is as good as random, and trains on the other 1,197.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from repfl.datasets.core.checks import canonical_order
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import Arrays, Dataset, Edition, Norm, register

TEST_PER_CLASS = 60


def read(_: Path) -> dict[str, Arrays]:
    """Read scikit-learn's images and cut them into our split."""
    # [n, 65]: 64 pixels of 0..16, then the label
    table = np.loadtxt(_file(), delimiter=",", dtype=np.int64)
    images, labels = table[:, :64].astype(np.uint8).reshape(-1, 8, 8, 1), table[:, 64]
    order = canonical_order(Arrays(images, labels))
    images, labels = images[order], labels[order]
    rank = np.arange(len(labels)) - np.searchsorted(labels, np.arange(10))[labels]
    test = rank < TEST_PER_CLASS
    return {
        "train": Arrays(images[~test], labels[~test]),
        "test": Arrays(images[test], labels[test]),
    }


def _file() -> Path:
    """Return the path of scikit-learn's table; importing the library would take seconds."""
    spec = find_spec("sklearn")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "")
    path = folder / "datasets" / "data" / "digits.csv.gz"
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
        extra_norms={"standard": Norm(16.0, (0.3052,), (0.3758,))},  # of the training split
        embedded=True,
    )
)
