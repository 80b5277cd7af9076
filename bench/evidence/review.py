"""What a contribution of measured lines changes, for a pull request: `repfl review OLD NEW`.

OLD and NEW are commits of this clone, or folders: clones, or copies of `paper_tables`. Every line
that is new, changed or gone gets one row. A line is refused if it does not hold by itself, if it
speaks of something that nobody plans, if it is not of today's versions and a clean clone, or if it
lies further from others than the noise of a run explains, to either side.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from repfl.bench.errors import UserError
from repfl.bench.evidence import measured, recheck, tiers
from repfl.bench.evidence.lines import Line
from repfl.bench.evidence.measured import Measured
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Planned, Selection, plan
from repfl.bench.store import provenance

AFAR = 1.5
"""How much further off than two runs of one cell one with another seed may lie, since many are
looked at.
"""


@dataclass(frozen=True)
class Change:
    """What became of one line."""

    paper: str
    scale: str
    kind: str
    """new, changed, gone, or does not hold."""
    what: str
    """The line in words."""
    value: str
    remark: str
    refused: bool


@dataclass
class Review:
    """All changes of a contribution."""

    old: str
    new: str
    same: int = 0
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be read of the old side."""

    @property
    def refused(self) -> int:
        return sum(change.refused for change in self.changes)


def review(old: str, new: str) -> Review:
    """Compare the measured lines of two commits or folders."""
    found = Review(old, new)
    with _lines_of(old) as before, _lines_of(new) as after:
        for paper in sorted({*_papers(before), *_papers(after)}):
            for scale in grids.SCALES:
                then, now = (
                    measured.read(paper, scale, before),
                    measured.read(paper, scale, after),
                )
                if then.lines or now.lines or now.problems:
                    FileChange(paper, scale, then, now).compare(found)
    return found


@dataclass
class FileChange:
    """The lines of one paper at one scale, before and after."""

    paper: str
    scale: str
    then: Measured
    now: Measured

    @cached_property
    def planned(self) -> list[Planned]:
        """What today's grids plan; of a table that tunes all methods alike also the cells of
        methods that join it.
        """
        own = recheck.cells_of(self.paper, self.scale)
        if any(item.trial for item in own) and (guests := self._guests(own)):
            own += plan(Selection(papers=[self.paper], scale=self.scale, methods=guests))
        return own

    def _guests(self, own: Sequence[Planned]) -> list[str]:
        """Methods of lines that are registered and have no row."""
        from repfl.algorithms.core.method import methods

        found = {str(line.axes["method"]) for side in (self.then, self.now) for line in side.lines}
        return sorted(found & methods().keys() - {item.cell.method for item in own})

    def compare(self, found: Review) -> None:
        """Every line of either side, by its key."""
        for side in (self.then, self.now):
            recheck.sound(side, self.planned)
        told = [
            Change(self.paper, self.scale, "does not hold", each, "", "", True)
            for each in self.now.problems
        ]
        found.changes += told
        found.notes += [f"before: {problem}" for problem in self.then.problems[:1]]
        then, now = ({line.key: line for line in side.lines} for side in (self.then, self.now))
        for key in sorted({*then, *now} - self.now.refused):
            if key in then and key in now and then[key].checksum == now[key].checksum:
                found.same += 1
            else:
                found.changes.append(self._change(then.get(key), now.get(key)))

    def _change(self, then: Line | None, now: Line | None) -> Change:
        line = now or then
        assert line is not None
        kind = "new" if then is None else "gone" if now is None else "changed"
        remark = (
            self._new(now)
            if then is None and now
            else self._gone(line)
            if now is None
            else self._changed(then, now)
        )
        values = [
            f"{100 * each.value:.2f}"
            for each in (then, now)
            if each is not None and each.value is not None
        ]
        text = (
            f"{line.axes['method']} on {line.axes['column']}, seed {line.axes['seed']}"
            f" ({line.cell[:12]})"
        )
        text += f", by {line.contributor} on {line.platform[:8]}"
        return Change(
            self.paper,
            self.scale,
            kind,
            text,
            " -> ".join(values),
            remark.lstrip("!"),
            remark.startswith("!"),
        )

    # -- what is to be said of a line; an exclamation mark in front refuses it ---------------------

    def _new(self, line: Line) -> str:
        return (
            self._unknown(line)
            or self._unproved(line)
            or self._too_far(line)
            or self._twin(line)
            or self._company(line)
        )

    def _changed(self, then: Line | None, now: Line | None) -> str:
        assert then is not None
        assert now is not None
        if then.digests == now.digests and then.record.metrics == now.record.metrics:
            return (
                self._unknown(now)
                or self._unproved(now)
                or "the same numbers, with more beside them"
            )
        if then.standing.current:
            return (
                "!numbers of a finished cell do not change; a new version of the method makes a new"
                " cell"
            )
        return (
            self._unknown(now)
            or self._unproved(now)
            or f"in place of one that was stale: {then.standing.reason}"
        )

    def _gone(self, line: Line) -> str:
        """A line may go when its method has a newer version, or when nobody plans its cell any
        more.
        """
        versions = [
            int(each.axes["version"])
            for each in self.now.lines
            if each.axes["method"] == line.axes["method"]
        ]
        if max(versions, default=0) > int(line.axes["version"]):
            return "its method has a newer version"
        return (
            "!was removed, though its cell is planned"
            if line.record.cell
            else "no grid plans its cell any more"
        )

    def _unknown(self, line: Line) -> str:
        if line.record.cell:
            return ""
        from repfl.algorithms.core.method import methods

        method = str(line.axes["method"])
        return (
            f"!unknown method {method}" if method not in methods() else "!no grid plans this cell"
        )

    def _unproved(self, line: Line) -> str:
        if not line.standing.current:
            return f"!{line.standing.reason}"
        return "!has no counts per client" if not line.counted and line.value is not None else ""

    def _too_far(self, line: Line) -> str:
        """Too good or too bad for the noise, beside other lines of its cell or else beside other
        seeds.
        """
        others = [each for each in self.now.cells[line.cell].values() if each.key != line.key]
        allowed = tiers.apart(line, self.now)
        if far := [other for other in others if not tiers.agree(line, other, self.now)]:
            return self._off(line, far, allowed)
        if others or line.value is None:
            return ""
        place = [line.axes[name] for name in ("method", "version", "hp", "column", "rounds")]
        seeds = [
            each
            for each in self.then.lines
            if [each.axes[name] for name in ("method", "version", "hp", "column", "rounds")]
            == place
        ]
        known = [each for each in seeds if each.value is not None]
        mean = sum(each.value or 0 for each in known) / max(len(known), 1)
        return (
            self._off(line, known, AFAR * allowed)
            if known and abs(line.value - mean) > AFAR * allowed
            else ""
        )

    def _off(self, line: Line, others: Sequence[Line], allowed: float) -> str:
        mean = sum(each.value or 0 for each in others) / len(others)
        by, side = (
            100 * abs((line.value or 0) - mean),
            "good" if (line.value or 0) > mean else "bad",
        )
        return (
            f"!too {side} for the noise: {by:.2f} points from {len(others)} other runs, allowed"
            f" {100 * allowed:.2f}"
        )

    def _twin(self, line: Line) -> str:
        """The same bits under another name: a copy, or two options that do the same."""
        state = line.digests.get("state")
        twins = [
            each
            for each in self.then.lines
            if each.cell != line.cell and each.digests.get("state") == state
        ]
        names = sorted({f"{each.axes['method']} ({each.cell[:12]})" for each in twins})
        return f"look: the same bits as {', '.join(names[:3])}" if state and names else ""

    def _company(self, line: Line) -> str:
        others = len(self.now.cells[line.cell]) - 1
        return (
            f"agrees with {others} other line{'s' if others > 1 else ''} of its cell"
            if others
            else "the first of its cell"
        )


# -- commits and folders ---------------------------------------------------------------------------


@contextmanager
def _lines_of(place: str) -> Iterator[Path]:
    """A folder that holds <paper>/measured, out of a folder or a commit."""
    if Path(place).is_dir():
        inside = Path(place) / "paper_tables"
        yield inside if inside.is_dir() else Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="repfl-review-") as folder:
        packed = subprocess.run(
            ["git", "-C", str(provenance.ROOT), "archive", place, "paper_tables"],
            capture_output=True,
            check=False,
        )
        if packed.returncode:
            told = packed.stderr.decode().strip().splitlines()[-1:] or ["git does not say why"]
            raise UserError(
                f"review {place!r}: neither a folder nor a commit of this clone: {told[0]}"
            )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            members = [each for each in archive.getmembers() if "/measured/" in each.name]
            archive.extractall(folder, members, filter="data")
        yield Path(folder) / "paper_tables"


def _papers(root: Path) -> list[str]:
    return [path.parent.name.replace("_", "-") for path in root.glob("*/measured")]
