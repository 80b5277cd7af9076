"""OrganAMNIST, OrganCMNIST and OrganSMNIST: grey 28x28 slices of 11 abdominal organs, by direction.

MedMNIST has removed a few samples since the papers were written. `get` downloads the older edition,
which the papers use; `--edition medmnist-3` the current one. Both can be imported.

FedOBP divides pixels by 255 and then normalises with constants for 0..255, so its inputs are almost
constant. That is `fedobp`; `fedobp-corrected` has the same constants at the right scale.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from repfl.datasets.core.files.readers import find_file, read_npz
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, Norm, get, register, words

ORGANS = words(
    """bladder femur-left femur-right heart kidney-left kidney-right liver lung-left lung-right
    pancreas spleen"""
)
PAPER = (
    "J. Yang et al.: MedMNIST v2 - A large-scale lightweight benchmark for 2D and 3D biomedical"
    " images. Scientific Data 10, 2023."
)


def read(folder: Path, dataset: str, names: tuple[str, ...]) -> dict[str, Arrays]:
    """Read the official .npz file, by its current or its first name."""
    return read_npz(find_file(folder, *names), get(dataset))


def files(name: str, first_name: str, md5: str) -> tuple[File, ...]:
    """Return the papers' edition; the medmnist package knows only the current one."""
    records = {"6496656": name, "5208230": name, "4269852": first_name}
    urls = tuple(
        f"https://zenodo.org/records/{record}/files/{file}?download=1"
        for record, file in records.items()
    )
    return (File(name, urls, f"md5:{md5}"),)


def current_files(name: str) -> tuple[File, ...]:
    """Return the current edition, as the medmnist package knows it."""
    from medmnist import INFO

    source = INFO[name.removesuffix(".npz")]
    return (File(name, (source["url"],), f"md5:{source['MD5']}"),)


def _register(
    letter: str, view: str, md5: str, old: Edition, new: Edition, size: int, norms: dict[str, Norm]
) -> None:
    name, first_name = f"organ{letter.lower()}mnist.npz", f"organmnist_{view}.npz"
    register(
        Dataset(
            name=f"organ{letter.lower()}mnist",
            title=f"Organ{letter}MNIST ({view} slices)",
            homepage="https://medmnist.com/",
            licence="CC BY 4.0",
            citation=PAPER,
            classes=ORGANS,
            shape=(28, 28, 1),
            editions=(old, replace(new, files=partial(current_files, name))),
            read=partial(read, dataset=f"organ{letter.lower()}mnist", names=(name, first_name)),
            files=partial(files, name, first_name, md5),
            extra_norms=norms,
            size=size,
        )
    )


_register(
    "A",
    "axial",
    "866b832ed4eeba67bfb9edee1d5544e6",
    Edition("medmnist-2", {"train": 34_581, "val": 6_491, "test": 17_778}),
    Edition("medmnist-3", {"train": 34_561, "val": 6_491, "test": 17_778}),
    38_247_903,
    {
        "fedobp": Norm(255.0, (118.7546,), (62.3489,)),
        "fedobp-corrected": Norm(255.0, (0.4657,), (0.2445,)),
    },
)
_register(
    "C",
    "coronal",
    "0afa5834fb105f7705a7d93372119a21",
    Edition("medmnist-2", {"train": 13_000, "val": 2_392, "test": 8_268}),
    Edition("medmnist-3", {"train": 12_975, "val": 2_392, "test": 8_216}),
    15_527_535,
    {
        "fedobp": Norm(255.0, (124.424,), (58.8092,)),
        "fedobp-corrected": Norm(255.0, (0.4879,), (0.2306,)),
    },
)
_register(
    "S",
    "sagittal",
    "e5c39f1af030238290b9557d9503af9d",
    Edition(
        "medmnist-2",
        {"train": 13_940, "val": 2_452, "test": 8_829},
        totals=(2147, 1180, 1157, 1477, 1976, 1971, 6033, 1399, 1517, 3627, 2737),
    ),
    Edition("medmnist-3", {"train": 13_932, "val": 2_452, "test": 8_827}),
    16_528_536,
    {},
)
