"""What changed in the published results since a commit, for a pull request.

Every line that is new, changed or gone gets one row. A line is refused if it does not hold by
itself, if no grid plans its cell, if it is not of today's versions and a clean clone, or if it lies
further from others than the noise of a run explains, to either side.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from repfl.bench.errors import UserError
from repfl.bench.evidence import agreement, measured
from repfl.bench.evidence.line import Line
from repfl.bench.evidence.measured import Measured
from repfl.bench.evidence.verify import cells_of
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Selection, plan

ANOTHER_SEED = 1.5
"""How much further off than two runs of one cell a run with another seed may lie, since many are
looked at.
"""


class Change(NamedTuple):
    """What became of one line."""

    kind: str
    """new, changed, gone, or does not hold."""
    paper: str
    scale: str
    what: str
    """The line in words."""
    value: str
    remark: str
    refused: bool


class Remark(NamedTuple):
    """What is to be said of a line."""

    text: str
    refused: bool = False


def since(commit: str, root: Path | None = None) -> list[Change]:
    """Return what changed: compare the published results here with those of a commit."""
    folders = {paper: grids.folder(paper, root) for paper in grids.files(root)}
    for folder in [path for path in folders.values() if path.is_dir()][:1]:
        if _git(folder, "rev-parse", "--verify", f"{commit}^{{commit}}") is None:
            raise UserError(f"--against {commit}: no commit of this clone; git fetch may bring it")
    return [
        change
        for paper, folder in folders.items()
        for scale in grids.SCALES
        for change in compare(
            _before(commit, folder, paper, scale), measured.read(paper, scale, root)
        )
    ]


def _git(folder: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    return None if done.returncode else done.stdout


def _before(commit: str, folder: Path, paper: str, scale: str) -> Measured:
    """Return what a commit has of a paper at a scale."""
    found = Measured(paper, scale)
    text = _git(folder, "show", f"{commit}:./measured/{scale}.jsonl") if folder.is_dir() else None
    measured.fill(found, text or b"")
    return found


def compare(then: Measured, now: Measured) -> Iterator[Change]:
    """Compare every line of either side, by its key."""
    place = now.paper, now.scale
    yield from (Change("does not hold", *place, each, "", "", True) for each in now.problems)
    before, after = ({line.key: line for line in side.lines} for side in (then, now))
    changed = [
        key
        for key in sorted({*before, *after})
        if not (key in before and key in after)
        or before[key].json["checksum"] != after[key].json["checksum"]
    ]
    if not changed:
        return
    review = _Review(then, now, _planned(then, now))
    for key in changed:
        old, new = before.get(key), after.get(key)
        kind = "new" if old is None else "gone" if new is None else "changed"
        values = [
            f"{100 * each.value:.2f}" for each in (old, new) if each and each.value is not None
        ]
        remark = review.remark(old, new)
        yield Change(kind, *place, _words(new or old), " -> ".join(values), *remark)


def _words(line: Line | None) -> str:
    assert line is not None
    return (
        f"{line.method} on {line.column}, seed {line.record.cell['seed']} ({line.cell[:12]}), by"
        f" {line.contributor} on {line.platform[:8]}"
    )


def _planned(*sides: Measured) -> set[str]:
    """Return what today's grids plan; of a table that tunes all methods alike also the cells of
    registered methods that join it.
    """
    from repfl.algorithms.core.method import methods

    paper, scale = sides[-1].paper, sides[-1].scale
    own = cells_of(paper, scale)
    if any(item.trial for item in own):
        published = {line.method for side in sides for line in side.lines}
        guests = sorted(published & methods().keys() - {item.cell.method for item in own})
        if guests:
            own += plan(Selection(papers=[paper], scale=scale, methods=guests))
    return {item.cell.id for item in own}


@dataclass
class _Review:
    """What to say of the lines of one file that changed."""

    then: Measured
    now: Measured
    planned: set[str]

    def remark(self, then: Line | None, now: Line | None) -> Remark:
        if now is None:
            assert then is not None
            return self._gone(then)
        if then is None:
            return (
                self._unproved(now)
                or self._too_far(now)
                or Remark(self._twin(now) or self._company(now))
            )
        if then.digests == now.digests and then.record.metrics == now.record.metrics:
            return self._unproved(now) or Remark("the same numbers, with more beside them")
        if then.standing.current:
            return Remark(
                "numbers of a finished cell do not change; a new version makes a new cell", True
            )
        return self._unproved(now) or Remark(
            f"in place of one that was stale: {then.standing.reason}"
        )

    def _gone(self, line: Line) -> Remark:
        """A line may go if its method has a newer version, or if no grid plans its cell."""
        newest = [
            each.record.cell["version"] for each in self.now.lines if each.method == line.method
        ]
        if max(newest, default=0) > line.record.cell["version"]:
            return Remark("its method has a newer version")
        if line.cell in self.planned:
            return Remark("was removed, though its cell is planned", True)
        return Remark("no grid plans its cell any more")

    def _unproved(self, line: Line) -> Remark | None:
        if line.cell not in self.planned:
            return Remark("no grid plans this cell", True)
        if not line.standing.current:
            return Remark(line.standing.reason, True)
        if line.counts is None and line.value is not None:
            return Remark("has no counts per client", True)
        return None

    def _too_far(self, line: Line) -> Remark | None:
        """Too good or too bad for the noise, beside other lines of its cell or else beside other
        seeds.
        """
        allowed = agreement.allowed(line, self.now)
        others = self.now.others(line)
        if far := [each for each in others if not agreement.agree(line, each, self.now)]:
            return _off(line, far, allowed)
        if others or line.value is None:
            return None
        seeds = [
            each
            for each in self.then.lines
            if each.value is not None and _but_seed(each) == _but_seed(line)
        ]
        allowed *= ANOTHER_SEED
        return _off(line, seeds, allowed) if seeds and abs(_by(line, seeds)) > allowed else None

    def _twin(self, line: Line) -> str:
        """The same bits under another name: a copy, or two options that do the same."""
        state = line.digests.get("state")
        twins = {
            f"{each.method} ({each.cell[:12]})"
            for each in self.then.lines
            if state and each.cell != line.cell and each.digests.get("state") == state
        }
        return f"look: the same bits as {', '.join(sorted(twins)[:3])}" if twins else ""

    def _company(self, line: Line) -> str:
        others = len(self.now.others(line))
        return (
            f"agrees with {others} other line{'s' if others > 1 else ''} of its cell"
            if others
            else "the first of its cell"
        )


def _but_seed(line: Line) -> tuple[object, ...]:
    return {**line.record.cell, "seed": None}, line.column


def _by(line: Line, others: Sequence[Line]) -> float:
    """Return how far a value lies from the mean of others, as a share."""
    return (line.value or 0) - sum(each.value or 0 for each in others) / len(others)


def _off(line: Line, others: Sequence[Line], allowed: float) -> Remark:
    """Refuse a value that is further from others than is allowed."""
    by = _by(line, others)
    return Remark(
        f"too {'good' if by > 0 else 'bad'} for the noise: {100 * abs(by):.2f} points from"
        f" {len(others)} other runs, allowed {100 * allowed:.2f}",
        True,
    )
