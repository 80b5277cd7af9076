"""Hashes of sources: the same for the same code, another for any other, whichever file it is in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repfl.bench.records import sources as code
from tests.bench.conftest import copy_code

TEXT = b'''"""What this is."""
from math import sqrt as root
LIMIT: int = -3
"""What that is."""
class Thing(dict[str, int]):
    """A thing."""
    def method(self, x, /, *rest, deep=1.5, **more):
        """Does."""
        with open(f"{x!r:>{LIMIT}} of {deep:.2f}" "!", "rb") as file:
            return {**more, "a": [i for i in rest if i is not None]}[x:...] or (
                lambda: 1 if rest else 2
            )
def bare(): "only words"
'''
GOLDEN = "eb5dbc65138980fd"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what is hashed."""
    copy_code(tmp_path, "algorithms", "datasets", "bench/running")
    return tmp_path


def test_the_same_text_has_the_same_hash_in_every_version_of_python() -> None:
    assert code.hash_of(TEXT).startswith(GOLDEN)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ((b'    """A thing."""\n', b""), True),
        ((b"LIMIT: int = -3\n", b"\n\nLIMIT: int = (-3)  # why\n"), True),
        ((b'"rb") as file:', b"'rb'\n        ) as file:"), True),
        ((b'"""What that is."""\n', b'"""Something else."""\n'), True),
        ((b"-3", b"3"), False),
        ((b"deep=1.5", b"deep=1.50001"), False),
        ((b"is not None", b"is None"), False),
        ((b"LIMIT: int", b"LIMIT: float"), False),
        ((b'"rb"', b'"r"'), False),
        ((b"{**more, ", b"{more: 1, "), False),
    ],
    ids=lambda change: change[1].decode().strip() if isinstance(change, tuple) else "",
)
def test_words_do_not_enter_and_code_does(change: tuple[bytes, bytes], same: bool) -> None:
    assert change[0] in TEXT
    assert (code.hash_of(TEXT.replace(*change)) == code.hash_of(TEXT)) is same


@pytest.mark.parametrize(
    "file",
    [
        "algorithms/core/run.py",
        "algorithms/core/rng.py",
        "algorithms/models/cnn4.py",
        "datasets/core/augment.py",
        "datasets/partitions/n_classes.py",
        "datasets/digits.py",
        "bench/running/clients.py",
        "bench/running/metrics.py",
    ],
)
def test_a_change_to_what_every_cell_runs_through_moves_every_method(tree: Path, file: str) -> None:
    before = code.sources("local")
    assert code.sources("local", tree) == before
    changed = tree / "changed"
    for folder in ("algorithms", "datasets", "bench"):
        shutil.copytree(tree / folder, changed / folder)
    (changed / file).write_text((tree / file).read_text() + "\nPLANTED = 1\n")
    after = code.sources("local", changed)
    assert (after["engine"] != before["engine"], after["method"] == before["method"]) == (
        True,
        True,
    )


@pytest.mark.parametrize("file", ["datasets/core/readers.py", "datasets/core/custom.py"])
def test_a_change_to_what_reads_files_moves_nothing(tree: Path, file: str) -> None:
    """What was read has a fingerprint of its own."""
    before = code.sources("local", tree)
    changed = tree / "changed"
    for folder in ("algorithms", "datasets", "bench"):
        shutil.copytree(tree / folder, changed / folder)
    (changed / file).write_text((changed / file).read_text() + "\nPLANTED = 1\n")
    assert code.sources("local", changed) == before


def test_a_change_to_a_method_moves_that_method_alone(tree: Path) -> None:
    (tree / "algorithms/fedavg.py").write_text(
        (tree / "algorithms/fedavg.py").read_text() + "\nPLANTED = 1\n"
    )
    assert code.sources("fedavg", tree) != code.sources("fedavg")
    assert code.sources("local", tree) == code.sources("local")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("cost=2.2", "cost=2.4"), True),
        (("year=2020", "year=2021"), True),
        (('"alpha_epochs=0", ', ""), True),
        (("version=2", "version=3"), False),
    ],
)
def test_of_a_registration_only_what_decides_numbers_enters(
    tree: Path, change: tuple[str, str], same: bool
) -> None:
    file = tree / "algorithms/apfl.py"
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change))
    assert (code.sources("apfl", tree) == code.sources("apfl")) is same


def test_a_comment_moves_nothing(tree: Path) -> None:
    for file in ("algorithms/fedavg.py", "algorithms/core/run.py"):
        (tree / file).write_text("# a remark\n" + (tree / file).read_text())
    assert code.sources("fedavg", tree) == code.sources("fedavg")


def test_a_method_takes_in_the_methods_and_files_that_it_builds_on(
    tree: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "helper.py").write_text("STEP = 1\n")
    (mine / "header.py").write_text(
        "import helper\nfrom repfl.algorithms.flute import FLUTE\nfrom repfl.algorithms.core.method"
        " import register\n"
    )
    assert code._closure(mine / "header.py", tree) == {
        mine / "header.py",
        mine / "helper.py",
        tree / "algorithms/flute.py",
    }


def test_every_method_is_found_by_its_text() -> None:
    from repfl.algorithms.core.method import methods

    assert {
        name
        for name, entry in methods().items()
        if entry.cls.__module__.startswith("repfl.algorithms.")
    } == set(code._files_of_methods(code.ROOT))


def test_a_tree_without_the_method_says_so(tree: Path) -> None:
    with pytest.raises(KeyError):
        code.sources("no-such-method", tree)
