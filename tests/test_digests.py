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


def current() -> dict[str, dict[str, str]]:
    """The digests of normalisations, names of classes, augmentations and printed numbers."""
    from repfl.datasets.core import registry
    from repfl.datasets.core.augment import AUGMENTATIONS

    described = {name: registry.get(name) for name in sorted(registry.names())}
    paths = sorted(ROOT.glob("paper_tables/*/published/*.csv"))
    return {
        "normalisations": {
            f"{name} {key}": digest(repr((norm.scale, norm.mean, norm.std)).encode())
            for name, each in described.items()
            for key, norm in sorted(each.norms.items())
        },
        # in the order of their labels
        "labels": {
            name: digest("\n".join(each.classes).encode()) for name, each in described.items()
        },
        "augmentations": {
            name: digest(repr(each).encode()) for name, each in sorted(AUGMENTATIONS.items())
        },
        # whatever the ends of their lines
        "printed": {
            path.relative_to(ROOT).as_posix(): digest(b"\n".join(path.read_bytes().splitlines()))
            for path in paths
        },
    }


def test_constants_and_printed_numbers_are_those_that_were_compared_with_the_papers() -> None:
    known = json.loads(FILE.read_text())
    for kind, digests in current().items():
        assert digests == known[kind], kind


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n")
