"""From files to the prepared cache: download or import, read, check, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from repfl.datasets.core.cache import (
    data_root,
    how_to_get,
    locked,
    open_dataset,
    prepared_path,
    writable,
    write,
)
from repfl.datasets.core.checks import Checked, check, fingerprint
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.arrow import HUB, is_saved, read_saved, save_from_hub
from repfl.datasets.core.files.readers import (
    NothingFoundError,
    is_archive,
    read_folder,
    read_npz,
    reading,
    unpack,
)
from repfl.datasets.core.registry import Arrays, Dataset, File, get
from repfl.datasets.core.user_paths import expanded

CHUNK_BYTES = 1 << 18


def download(
    name: str,
    root: Path | str | None = None,
    *,
    edition: str | None = None,
    progressbar: bool = False,
) -> Path | None:
    """Download and prepare a dataset unless it is prepared already.

    Users' own datasets are always read again, since their files may have changed. Returns the path
    of the prepared file, None for an embedded dataset.
    """
    dataset, base = get(name), data_root(root)
    name = dataset.name
    files = (edition and dataset.edition(edition).files) or dataset.files
    own = not dataset.editions
    if dataset.embedded:
        return None
    if not own and is_prepared(name, base, edition):
        return prepared_path(name, base)
    if dataset.manual:
        raise DataError(f"{name} cannot be downloaded automatically: {dataset.manual}")
    with locked(name, base) as scratch:
        # another process may have been faster
        if not own and is_prepared(name, base, edition):
            return prepared_path(name, base)
        raw = base / "raw" / name
        with writable(base):
            raw.mkdir(parents=True, exist_ok=True)
        try:
            paths = [fetch(file, raw, progressbar) for file in files()]
            archives = [path for path in paths if is_archive(path)]
            for archive in archives:
                unpack(archive, scratch, dataset.max_bytes)
            source, folder = Path(name) if own else raw, scratch if archives else raw
            checked = _checked(dataset, source, lambda: dataset.read(folder))
            return write(dataset, checked, base, scratch)
        finally:
            with suppress(OSError):  # not empty
                raw.rmdir()


def fetch(file: File, folder: Path, progressbar: bool = False) -> Path:
    """Download an official file with pooch, which checks it, from the first address that works."""
    import pooch
    import requests

    # it announces every file otherwise
    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(progressbar=progressbar, chunk_size=CHUNK_BYTES)
    failures = []
    with writable(folder):
        for url in file.urls:
            try:
                return Path(
                    pooch.retrieve(url, file.checksum, file.name, folder, downloader=downloader)
                )
            except requests.RequestException as error:
                failures.append(f"{url}: {_reason(error)}")
            except ValueError:
                failures.append(f"{url}: wrong checksum, not {file.checksum}")
    raise DataError(
        f"could not download {file.name} ({'; '.join(failures)}). Try again later, or download it"
        " yourself and use `repfl data import`"
    )


def _reason(error: Exception) -> str:
    """Return a short cause of a failed request."""
    reply = getattr(error, "response", None)
    if reply is not None:
        return f"the server answered {reply.status_code} {reply.reason}"
    if type(error).__name__ == "ChunkedEncodingError":
        return "the connection ended early"
    return f"no connection ({type(error).__name__})"


def import_files(name: str, source: Path | str, root: Path | str | None = None) -> Path:
    """Prepare a dataset from an official archive, file or folder, an .npz, image folders, a folder
    that Hugging Face's `save_to_disk` wrote, or `hf:NAME` of the hub.
    """
    dataset, base, path = get(name), data_root(root), expanded(source)
    name = dataset.name
    hub = str(source).startswith(HUB)
    if dataset.embedded:
        where = "scikit-learn" if dataset.editions else "its description"
        raise DataError(f"{name} comes with {where}: there is nothing to import")
    if not dataset.editions:
        raise DataError(f"{name} is read from where its description says: {how_to_get(dataset)}")
    if not path.exists() and not hub:
        raise DataError(
            f"{path} does not exist: give the official archive or folder of {name}, an .npz file or"
            " a folder of images"
        )
    with locked(name, base) as scratch:
        if is_archive(path):
            unpack(path, scratch, dataset.max_bytes)
        if hub:
            save_from_hub(str(source).removeprefix(HUB), scratch)
        folder = scratch if is_archive(path) or hub else path

        def read() -> Mapping[str, Arrays]:
            if folder.is_dir():
                return _read_any(dataset, folder)
            if folder.suffix.lower() == ".npz":
                return read_npz(folder, dataset)
            try:
                return dataset.read(folder.absolute().parent)
            except NothingFoundError as error:
                raise DataError(f"{path} is no file of {name}: {error}") from None

        return write(dataset, _checked(dataset, path, read), base, scratch)


def _read_any(dataset: Dataset, folder: Path) -> Mapping[str, Arrays]:
    """Read official files if there are any, else a saved data set, an .npz or images in class
    folders.
    """
    if is_saved(folder):
        return read_saved(folder, dataset.classes, dataset.shape, resize=dataset.resize)
    try:
        return dataset.read(folder)
    except NothingFoundError as official:
        packed = folder / f"{dataset.name}.npz"
        if packed.is_file():
            return read_npz(packed, dataset)
        try:
            return read_folder(
                folder,
                dataset.classes,
                dataset.shape,
                resize=dataset.resize,
                official_split="all" not in dataset.splits,
            )
        except NothingFoundError:
            raise DataError(
                f"{official}, and no images in class folders: {dataset.name} comes from"
                f" {dataset.homepage}"
            ) from None


def _checked(dataset: Dataset, source: Path, read: Callable[[], Mapping[str, Arrays]]) -> Checked:
    """Read and check a dataset; errors name the source."""
    with reading(source):
        return check(dataset, read(), source)


# -- state -----------------------------------------------------------------------------------------


def is_prepared(name: str, root: Path | str | None = None, edition: str | None = None) -> bool:
    """Return whether a complete prepared file exists; a damaged one counts as absent."""
    try:
        prepared = open_dataset(name, root)
    except DataError:
        return False
    return edition in (None, prepared.edition)


class SplitCheck(NamedTuple):
    """The result of `verify` for one split."""

    split: str
    fingerprint: str
    intact: bool  # equal to the fingerprint taken at preparation
    published: bool | None  # equal to the published fingerprint; None if there is none


def verify(name: str, root: Path | str | None = None) -> list[SplitCheck]:
    """Recompute the fingerprints of a prepared dataset from its bytes."""
    prepared = open_dataset(name, root)
    editions = {edition.name: edition for edition in prepared.description.editions}
    edition = editions.get(prepared.edition)
    published = (edition.fingerprints if edition else None) or {}
    results = []
    for split, span in prepared.splits.items():
        rows = slice(span.start, span.stop)
        found = fingerprint(prepared.images[rows], prepared.labels[rows])
        results.append(
            SplitCheck(
                split,
                found,
                found == prepared.fingerprints[split],
                found == published[split] if split in published else None,
            )
        )
    return results


def damaged(name: str, results: list[SplitCheck]) -> str:
    """Return one line about splits that do not match; empty if all do."""
    bad = [each.split for each in results if not each.intact or each.published is False]
    if not bad:
        return ""
    return (
        f"{name}: split {', '.join(bad)} does not match its fingerprint: delete the prepared file"
        f" and {how_to_get(get(name))}"
    )
