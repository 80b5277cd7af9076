"""UCI HAR: 10,299 windows of a smartphone's inertial signals, of 30 persons and six activities.

A window has 128 readings (2.56 s at 50 Hz) of nine signals. Windows of one recording overlap by
half, so a random split puts the same readings into training and test. Recordings are found in the
signals themselves: a window follows the one whose second half it begins with. Their ids are the
samples' source ids, so that no partition can divide a recording.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from repfl.datasets.core.checks import canonical_order
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.readers import NothingFoundError, find_file
from repfl.datasets.core.registry import Arrays, Dataset, Edition, File, register, words

PERSONS, CHANNELS, READINGS = 30, 9, 128
SIGNALS = tuple(
    f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"
)
INNER = "UCI HAR Dataset.zip"
"""UCI wraps the authors' archive in another one."""
Opener = Callable[[str], IO[bytes]]


def read(folder: Path) -> dict[str, Arrays]:
    """Read `Inertial Signals`, labels and persons of the official training and test files."""
    signals, labels, persons = [], [], []
    with _official(folder) as opened:
        for part in ("train", "test"):
            channels = [_table(opened, f"{signal}_{part}.txt") for signal in SIGNALS]
            signals.append(np.stack(channels, axis=-1))
            labels.append(_table(opened, f"y_{part}.txt").reshape(-1) - 1)
            persons.append(_table(opened, f"subject_{part}.txt").reshape(-1) - 1)
    return _arrays(*map(np.concatenate, (signals, labels, persons)))


@contextmanager
def _official(folder: Path) -> Iterator[Opener]:
    """Yield a function that opens an official text file by its name, packed or not."""
    try:
        root = find_file(folder, "subject_train.txt").parent.parent
        yield lambda name: find_file(root, name).open("rb")
    except NothingFoundError:
        with zipfile.ZipFile(find_file(folder, INNER)) as packed:
            members = {Path(member).name: member for member in packed.namelist()}
            yield lambda name: packed.open(members[name])


def _table(opened: Opener, name: str) -> np.ndarray:
    """Return the numbers of a text file  [rows, columns], rounded once from text to float32."""
    with opened(name) as file:
        return np.loadtxt(file, dtype=np.float32, ndmin=2)


def from_npz(content: Mapping[str, np.ndarray]) -> dict[str, Arrays]:
    """Read `signals` [n, 128, 9] or [n, 9, 128], `labels` from 0 and `persons` from 0."""
    try:
        signals, labels, persons = (content[key] for key in ("signals", "labels", "persons"))
    except KeyError as error:
        raise DataError(f"there is no {error.args[0]}; needs signals, labels and persons") from None
    if signals.dtype != np.float32 or sorted(signals.shape[1:]) != [CHANNELS, READINGS]:
        given = f"{signals.dtype} {list(signals.shape)}"
        raise DataError(f"signals are {given}, not float32 [n, {READINGS}, {CHANNELS}]")
    # some copies have the values of one order and the shape of the other; only in the true order
    # does a window repeat half of the one before
    orders = (signals.reshape(-1, READINGS, CHANNELS), signals.reshape(-1, CHANNELS, READINGS))
    by_time = [np.ascontiguousarray(orders[0]), np.ascontiguousarray(orders[1].swapaxes(1, 2))]
    return _arrays(max(by_time, key=lambda windows: len(_following(windows)[0])), labels, persons)


def _arrays(signals: np.ndarray, labels: np.ndarray, persons: np.ndarray) -> dict[str, Arrays]:
    """Return windows [n, 128, 9] with persons as groups and recordings as sources."""
    if not len(signals) == len(labels) == len(persons):
        raise DataError(f"{len(signals)} windows, {len(labels)} labels, {len(persons)} persons")
    labels, persons = labels.astype(np.int64), persons.astype(np.int64)
    if len(persons) and not 0 <= persons.min() <= persons.max() < PERSONS:
        reach = f"{persons.min() + 1} to {persons.max() + 1}"
        raise DataError(f"persons reach from {reach}, not from 1 to {PERSONS}")
    # ids depend on the content alone, not on the order of a file
    order = canonical_order(Arrays(signals, labels, persons))
    signals, labels, persons = signals[order], labels[order], persons[order]
    return {"all": Arrays(signals[:, None], labels, persons, recordings(signals))}


def recordings(signals: np.ndarray) -> np.ndarray:
    """Return the recording of every window, numbered by first appearance  [n, T, C] -> [n]."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    before, after = _following(signals)
    count = len(signals)
    links = coo_array((np.ones(len(before)), (before, after)), shape=(count, count))
    _, parts = connected_components(links, directed=False)
    _, first, inverse = np.unique(parts, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _following(signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of windows, the second of which begins with the second half of the first."""
    half = signals.shape[1] // 2
    begins = {window[:half].tobytes(): index for index, window in enumerate(signals)}
    after = np.array([begins.get(window[half:].tobytes(), -1) for window in signals], np.int64)
    before = np.flatnonzero(after >= 0)
    return before, after[before]


def files() -> tuple[File, ...]:
    """Return UCI's archive. UCI publishes no checksum; this one is what others pinned."""
    return (
        File(
            "human+activity+recognition+using+smartphones.zip",
            (
                "https://archive.ics.uci.edu/static/public/240/"
                "human+activity+recognition+using+smartphones.zip",
            ),
            "sha256:c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
        ),
    )


register(
    Dataset(
        name="har",
        title="Human Activity Recognition Using Smartphones (UCI HAR)",
        homepage="https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
        licence="CC BY 4.0",
        citation=(
            "D. Anguita et al.: A Public Domain Dataset for Human Activity Recognition Using"
            " Smartphones. ESANN 2013."
        ),
        classes=words("walking upstairs downstairs sitting standing laying"),
        shape=(1, READINGS, CHANNELS),
        kind="signals",
        scale=1.0,
        groups=tuple(f"person {person + 1}" for person in range(PERSONS)),
        editions=(
            Edition(
                "official",
                {"all": 10_299},
                {"all": (1722, 1544, 1406, 1777, 1906, 1944)},
                {"all": "699717fef5541d48be13ddbf965a168cafa33d29e8b52e3569d79b585037326d"},
            ),
        ),
        read=read,
        from_npz=from_npz,
        files=files,
        size=61_005_872,
    )
)
