"""Constants of protocols and printed numbers change only on purpose: a digest for each of them.

A normalisation is in no version and in no cell, and a printed number that is mistyped later still
looks like one. Whoever corrects either looks at the paper again, and then writes the digests anew:

    python -m tests.test_digests
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_name("digests.json")


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def constants() -> dict[str, str]:
    """The digests of all normalisations of our data sets."""
    from repfl.datasets.core import registry

    return {
        f"{name} {key}": digest(repr((norm.scale, norm.mean, norm.std)).encode())
        for name in sorted(registry.names())
        for key, norm in sorted(registry.get(name).norms.items())
    }


def labels() -> dict[str, str]:
    """The digests of the names of all classes, in the order of their labels."""
    from repfl.datasets.core import registry

    return {
        name: digest("\n".join(registry.get(name).classes).encode())
        for name in sorted(registry.names())
    }


def augmentations() -> dict[str, str]:
    """The digests of the constants of all augmentations."""
    from repfl.datasets.core.augment import AUGMENTATIONS

    return {name: digest(repr(each).encode()) for name, each in sorted(AUGMENTATIONS.items())}


def printed() -> dict[str, str]:
    """The digests of all files of printed numbers, whatever the ends of their lines."""
    paths = sorted(ROOT.glob("paper_tables/*/published/*.csv"))
    return {
        path.relative_to(ROOT).as_posix(): digest(b"\n".join(path.read_bytes().splitlines()))
        for path in paths
    }


def test_constants_are_those_that_numbers_were_made_with() -> None:
    known = json.loads(FILE.read_text())
    assert constants() == known["normalisations"]
    assert labels() == known["labels"]
    assert augmentations() == known["augmentations"]


def test_printed_numbers_are_those_that_were_compared_with_the_papers() -> None:
    assert printed() == json.loads(FILE.read_text())["printed"]


if __name__ == "__main__":
    content = {
        "normalisations": constants(),
        "labels": labels(),
        "augmentations": augmentations(),
        "printed": printed(),
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")
