"""Do gate and tests together notice mistakes? Those of `ideas.toml` are planted one at a time into
a copy of this clone. The gate is asked, if a method is named, and then the tests that are named:
those of the folder, or the files of it that have to do with the place.

OMP_NUM_THREADS=1 python -m tests.plant.suite            # all; ideas whose text matches: ... WORD

Only what is quiet without the mistake and speaks up in time with it has found it.
"""

from __future__ import annotations

import compileall
import multiprocessing
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, NamedTuple

from tests import PATIENCE
from tests.plant import asked

ROOT = Path(__file__).resolve().parents[2]
BAR = 55 / 60
FOUND, MISSED = "found", "MISSED"
TIMED_OUT = "TIMED OUT"
UNPROVEN = "UNPROVEN, since it says so without the mistake, too:"
DRAWING = ["matplotlib.figure", "seaborn", "torch.func", "torchvision", "hypothesis", "typer"]
CHECKED_HASH = PycInvalidationMode.CHECKED_HASH
DIRT = (".git", "__pycache__", ".nox", ".venv", ".mypy_cache", ".ruff_cache")


@dataclass(frozen=True)
class Idea:
    """A mistake, in which file, and who may find it."""

    idea: str
    file: str
    old: str
    new: str
    tests: str
    method: str = ""
    recipes: str = ""

    def planted(self, clone: Path) -> str | None:
        """Return the text of the file with the mistake; None if code or tests have moved on."""
        path = clone / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        fits = text.count(self.old) == 1 and all((clone / t).exists() for t in self.tests.split())
        return text.replace(self.old, self.new) if fits else None


class Finder(NamedTuple):
    """Who found a mistake, and what they said."""

    tests: list[str]
    """Empty for the gate."""
    why: str


def ideas(words: list[str]) -> Iterator[Idea]:
    """Return the ideas that match a word, or all."""
    text = Path(__file__).with_name("ideas.toml").read_text(encoding="utf-8")
    for entry in tomllib.loads(text)["ideas"]:
        if not words or any(word in f"{entry['file']} {entry['idea']}" for word in words):
            yield Idea(**entry)


def answer(context: Any, target: Any, *arguments: Any) -> Any:
    """Return what a process of its own answers; None if it dies. TimeoutError if it takes long."""
    here, there = context.Pipe()
    process = context.Process(target=target, args=(*arguments, there))
    process.start()
    there.close()
    try:
        if not here.poll(PATIENCE):
            raise TimeoutError
        return here.recv()
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def finder(context: Any, clone: Path, idea: Idea) -> Finder | None:
    """Return who notices the mistake that the clone has; None if nobody does."""
    if idea.method:
        moved = ask_gate(context, clone, idea)
        if moved != []:
            return Finder([], moved[0] if moved else "it could not compute")
    tests = idea.tests.split()
    failed = answer(context, asked.tests, str(clone), tests)
    if failed is None:
        return Finder(tests, "they died")
    return Finder(failed[0][:1], failed[0][1]) if failed else None


def ask_gate(context: Any, clone: Path, idea: Idea) -> Any:
    recipes = tuple(idea.recipes.split())
    return answer(context, asked.ask, str(clone), (idea.method,), recipes)


def is_quiet(context: Any, clone: Path, idea: Idea, finder: Finder) -> bool:
    """Return whether the finder has nothing to say of the code without the mistake."""
    if finder.tests:
        return bool(answer(context, asked.tests, str(clone), finder.tests) == [])
    return bool(ask_gate(context, clone, idea) == [])


def outcome(context: Any, clone: Path, idea: Idea, text: str) -> tuple[str, str]:
    """Plant an idea; return what became of it, and who found it and why."""
    path = clone / idea.file
    right = path.read_text(encoding="utf-8")
    try:
        path.write_text(text, encoding="utf-8")
        try:
            by = finder(context, clone, idea)
        finally:
            path.write_text(right, encoding="utf-8")
        quiet = by is None or is_quiet(context, clone, idea, by)
    except TimeoutError:
        return TIMED_OUT, ""
    if by is None:
        return MISSED, ""
    who = " ".join(by.tests) or "the gate"
    return (FOUND if quiet else UNPROVEN), f"{who}: {by.why}"


def main() -> int:
    """Plant the ideas and print who found them; return exit code 1 if too few were found."""
    counts: Counter[str] = Counter()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*asked.LIBRARIES, *DRAWING, "pytest"])
    with tempfile.TemporaryDirectory(prefix="repfl-plant-") as folder:
        clone = Path(folder).resolve() / "clone"
        shutil.copytree(ROOT, clone, symlinks=True, ignore=shutil.ignore_patterns(*DIRT))
        # checked by content: a file that changes twice a second is not taken for its predecessor
        compileall.compile_dir(clone, quiet=2, invalidation_mode=CHECKED_HASH)
        shutil.copy(clone / "bench" / "check" / "reference.json", clone / asked.REFERENCE)
        for idea in ideas(sys.argv[1:]):
            text = idea.planted(clone)
            if text is None:
                print(f"left out, since code or tests have moved on: {idea.idea} ({idea.file})")
                continue
            word, by = outcome(context, clone, idea, text)
            counts[word] += 1
            print(f"{idea.file}: {idea.idea}: {word}{by and ' by '}{by[:200]}", flush=True)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 0 if counts[FOUND] >= BAR * counts.total() else 1


if __name__ == "__main__":
    sys.exit(main())
