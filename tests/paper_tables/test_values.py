"""The published csv files against an independent transcription of the papers, where one lies beside
this clone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from repfl.bench.grid.grid import files

VALUES = Path(__file__).resolve().parents[3] / "shared" / "papers" / "values"
FIELDS = ["table", "dataset", "setting", "method", "metric", "mean", "std"]
PAPERS = {"starpfl": "star-pfl"}


def numbers(path: Path) -> Counter[tuple[str, ...]]:
    """What a file says, whatever the order of its lines and its remarks."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return Counter(frame[FIELDS].itertuples(index=False, name=None))


@pytest.mark.skipif(not VALUES.is_dir(), reason="there is no transcription beside this clone")
def test_every_transcribed_number_is_published_once() -> None:
    """That each of these stands in exactly one artefact or claim is held by the tests of the
    papers.
    """
    folders = {name: path.parent / "published" for name, path in files().items()}
    known = {
        name: sum((numbers(path) for path in sorted(folder.glob("*.csv"))), Counter())
        for name, folder in folders.items()
    }
    seen = 0
    for path in sorted(VALUES.glob("*.csv")):
        short = path.stem.partition("_")[0]
        wanted = numbers(path)
        assert wanted - known[PAPERS.get(short, short)] == Counter(), path.name
        seen += wanted.total()
    assert seen > 1100
