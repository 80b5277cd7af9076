"""My dataset: measurements of 178 wines, 13 features, three vineyards; from scikit-learn.

Replace the call at the end. Other forms in which data come:

    from_folder("my-dataset", HERE / "images", shape=(32, 32, 3))
    from_npz("my-dataset", HERE / "data.npz", classes=("a", "b"), shape=(28, 28, 1))
    from_class("my-dataset", "torchvision.datasets:USPS", classes=tuple("0123456789"),
               shape=(16, 16, 1))
    from_class("my-dataset", "medmnist:BloodMNIST", classes=tuple("01234567"), shape=(28, 28, 3),
               splits=("train", "val", "test"))
    from_saved("my-dataset", HERE / "saved", shape=(32, 32, 3))  # by Hugging Face's `save_to_disk`

Folders are `train/CLASS/*.png` and `test/CLASS/*.png`, or `CLASS/*.png` without a split; images
are resized. These are prepared once, by `repfl data get my-dataset --plugin FILE`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.datasets.core.files.custom import from_arrays, register

HERE = Path(__file__).parent


def read() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return inputs and labels of each split; `all` if there is no split.

    Images are uint8 [n, H, W, C], features float [n, F]; labels count from 0.
    """
    from sklearn.datasets import load_wine

    wine = load_wine()
    scaled = (wine.data - wine.data.mean(0)) / wine.data.std(0)
    return {"all": (scaled, wine.target)}


register(
    from_arrays(
        "my-dataset",
        read,
        classes=("first", "second", "third"),
        shape=(13,),  # of features; (height, width, channels) of images
        title="Wine recognition",
        homepage="https://archive.ics.uci.edu/dataset/109/wine",
        licence="CC BY 4.0",
        citation="S. Aeberhard, M. Forina: Wine. UCI Machine Learning Repository, 1992.",
    )
)
