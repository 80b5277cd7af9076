"""Star-PFL's shipped Sagittal clients, and those of our partition rule.

python paper_tables/star_pfl/studies/partition.py CLONE    # of Guoyeting/Star-PFL at 0565c53

The clone has 25,221 labels and, for each alpha, the samples of every client. In the clone's order
of samples both are compared number for number; in the canonical order of this suite (by label) the
same draws fall on other samples, so class counts are compared.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repfl.datasets.core.partition import Pool, partitioners
from repfl.datasets.partitions.dirichlet import PairwiseDirichlet

ALPHAS = (0.01, 0.1, 1.0)
CLIENTS, SEED, PARTS = 20, 5, 3
NUMPY = {"_reconstruct", "ndarray", "dtype", "scalar", "encode"}
"""What a pickled list of arrays needs; nothing else of a downloaded file is called."""


class Arrays(pickle.Unpickler):
    """Reads arrays and refuses all other objects."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in NUMPY or module.split(".")[0] not in ("numpy", "_codecs"):
            raise pickle.UnpicklingError(f"{module}.{name} is no array")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def shipped(clone: Path, alpha: float) -> list[np.ndarray]:
    """Return the samples of client 0's train, test and validation part, then client 1's, ..."""
    path = clone / f"split/medmnist0.1/partion_non_iid_dirichlet_{alpha}_{CLIENTS}.npy"
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        return [np.asarray(part, dtype=np.int64) for part in Arrays(file).load()]


def ours(labels: np.ndarray, alpha: float) -> list[np.ndarray]:
    """Return the same parts by our rule, for samples with these labels."""
    pool = Pool(labels, {"all": range(len(labels))}, int(labels.max()) + 1)
    rule = partitioners()["pairwise-dirichlet"].function
    splits = rule(pool, CLIENTS, SEED, PairwiseDirichlet(alpha=alpha))
    parts = zip(splits.train, splits.test, splits.val or (), strict=True)
    return [np.asarray(part, dtype=np.int64) for own in parts for part in own]


def class_counts(labels: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many samples of each class each client has  [clients, classes]."""
    classes = int(labels.max()) + 1
    own = (np.concatenate(parts[i : i + PARTS]) for i in range(0, len(parts), PARTS))
    return np.array([np.bincount(labels[samples], minlength=classes) for samples in own])


def skew(counts: np.ndarray) -> float:
    """Return the mean total variation between a client's classes and those of all clients."""
    whole = counts.sum(0) / counts.sum()
    return float(np.abs(counts / counts.sum(1, keepdims=True) - whole).sum(1).mean() / 2)


def main(clone: Path) -> None:
    labels = np.load(clone / "data/medmnist/ydata.npy", allow_pickle=False).ravel().astype(np.int64)
    ordered = np.sort(labels)
    for alpha in ALPHAS:
        theirs, here = shipped(clone, alpha), ours(labels, alpha)
        same = sum(set(a) == set(b) for a, b in zip(theirs, here, strict=True))
        published = class_counts(labels, theirs)
        canonical = class_counts(ordered, ours(ordered, alpha))
        most = np.abs(published - canonical).max()
        print(
            f"alpha {alpha}: {same} of {len(theirs)} parts equal; in canonical order class counts"
            f" differ by up to {most}, total variation {skew(canonical):.3f}"
            f" ({skew(published):.3f})"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
