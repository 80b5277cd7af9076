"""The first screen, counted from the sheets: a finding as title, counts per paper, a mark per
published number. Numbers and claims have the same states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repfl.bench.report.numbers import MATCHES, Number, in_words
from repfl.bench.report.sheet import Sheet
from repfl.paper_tables.core.number_rule import is_counted, is_printed, split
from repfl.paper_tables.core.result import Claim, State
from repfl.paper_tables.core.statistics.verdict import EXACT, UNJUDGED, Kind, Verdict

STATES = {
    str(Verdict.REPRODUCED): ("reproduced", "✓"),
    str(Verdict.DIFFERS): ("differs", "≠"),
    str(Verdict.UNDECIDED): ("undecided", "?"),
    str(Verdict.OTHER_SCALE): ("reduced", "~"),
    str(Verdict.MISSING): ("missing", "·"),
}
"""By verdict, in the order of every legend: the class that colours it, and its sign."""
CLAIMS = {
    str(State.HOLDS): Verdict.REPRODUCED,
    str(State.FAILS): Verdict.DIFFERS,
    str(State.CONTRADICTED): Verdict.DIFFERS,
    str(State.OPEN): Verdict.UNDECIDED,
    str(State.SETTING): Verdict.OTHER_SCALE,
}
"""The verdict whose colour each state of a claim has."""
IN_WORDS = (
    ("holds", "hold"),
    ("does not hold", "do not hold"),
    ("contradicts the paper's own numbers", "contradict the paper's own numbers"),
    ("is undecided", "are undecided"),
    ("is a setting, which tests nothing", "are settings, which test nothing"),
)
"""What one claim of a state does, and what several do."""


COMPUTED = "computed"
ORIGINS = ("in print", "of the authors' files")
"""Where numbers stand: counted apart, everywhere."""


def state(verdict: str) -> str:
    """Return the class of a verdict; a published range without a value is not measured."""
    if verdict == MATCHES:
        verdict = Verdict.REPRODUCED
    return STATES.get(verdict, STATES[str(Verdict.MISSING)])[0]


@dataclass(frozen=True)
class Dot:
    """One published number: its verdict, its page and its name."""

    verdict: str
    link: str
    name: str


def dots(sheet: Sheet) -> list[Dot]:
    """Return a dot for every number that a table or figure publishes."""
    return [
        Dot(
            number.verdict,
            f"{sheet.page}#{number.id}",
            f"{number.row}, {number.where}: {_reported(number)} {number.printed_text}, "
            + (f"ours {number.ours_text}, " if number.measured else "")
            + number.verdict_text,
        )
        for number in sheet.printed
        if is_counted(number.kind)
    ]


def _reported(number: Number) -> str:
    return "logged" if number.kind == Kind.LOGGED else "reported"


def apart(numbers: Iterable[Number]) -> tuple[list[Number], list[Number]]:
    """Return the numbers that papers print, and those of their authors' files."""
    printed, filed = list[Number](), list[Number]()
    for number in numbers:
        (printed if is_printed(number.source) else filed).append(number)
    return printed, filed


def differing(sheets: Sequence[Sheet]) -> list[tuple[Sheet, Number]]:
    """Return the numbers that differ, the largest share of the reported value first."""
    pairs = [(s, n) for s in sheets for n in s.printed if n.verdict == Verdict.DIFFERS]
    return sorted(pairs, key=lambda pair: -_relative_gap(pair[1]))


def _relative_gap(number: Number) -> float:
    return abs(number.difference or 0.0) / max(abs(number.printed or 0.0), 1e-9)


@dataclass(frozen=True)
class Summary:
    """One paper in numbers."""

    paper: str
    title: str
    year: int
    sheets: tuple[Sheet, ...]
    open: Mapping[str, Any]
    sources: str = ""
    about: str = ""
    coverage: tuple[Mapping[str, Any], ...] = ()

    @property
    def numbers(self) -> list[Number]:
        """Return the numbers of tables and figures, without settings."""
        return [n for sheet in self.sheets for n in sheet.printed if is_counted(n.kind)]

    @property
    def claims(self) -> list[tuple[Sheet, Claim]]:
        return [(sheet, claim) for sheet in self.sheets for claim in sheet.claims]

    @property
    def _stated(self) -> list[str]:
        """Return the sources of the numbers that stand in sentences only."""
        return [s for _, claim in self.claims if is_counted(claim.state) for s in claim.sources]

    @property
    def sentences(self) -> int:
        """Count the numbers that stand in sentences only."""
        return len(self._stated)

    @property
    def published(self) -> int:
        return len(self.numbers) + self.sentences

    @property
    def origins(self) -> tuple[int, int]:
        """Count the numbers that the paper prints, and those of its authors' files."""
        return split([*(number.source for number in self.numbers), *self._stated])

    @property
    def verdicts(self) -> dict[str, int]:
        """Count the numbers of tables and figures by verdict."""
        given = Counter(number.verdict for number in self.numbers)
        return {str(verdict): given[str(verdict)] for verdict in Verdict}

    @property
    def claim_counts(self) -> dict[str, int]:
        """Count the paper's claims by state, without checks of ours."""
        states = Counter(str(claim.state) for _, claim in self.claims if not claim.ours)
        return {name: states[name] for name in CLAIMS}

    @property
    def agreeing(self) -> int:
        """Count the undecided claims that hold in the paper's own numbers."""
        return sum(c.state == State.OPEN and bool(c.printed) for _, c in self.claims if not c.ours)

    @property
    def standing(self) -> str:
        """Return in a sentence which of the paper's claims survive; empty if it has none."""
        counts = self.claim_counts
        if not (total := sum(counts.values())):
            return ""
        words = zip(counts.items(), IN_WORDS, strict=True)
        verb = "agrees" if self.agreeing == 1 else "agree"
        agreeing = (
            f" ({self.agreeing} {verb} with the paper's own numbers)" if self.agreeing else ""
        )
        parts = ", ".join(
            f"{n} {one if n == 1 else many}{agreeing if state == State.OPEN else ''}"
            for (state, n), (one, many) in words
            if n
        )
        decided = total - counts[State.OPEN] - counts[State.SETTING]
        start = "" if decided else "nothing is decided yet; "
        return f"{self.name}: {start}of {_count(total, 'claim')} {parts}."

    @property
    def name(self) -> str:
        """Return the name of the paper's method, which begins its title; else the title."""
        return self.title.partition(":")[0]

    @property
    def tally(self) -> list[Tally]:
        """Return the numbers by what they need and where they stand, with their verdicts."""
        trained = [n for n in self.numbers if n.kind and n.kind not in EXACT]
        groups = [(COMPUTED, [n for n in self.numbers if n.kind in EXACT])]
        groups += zip((f"trained, {name}" for name in ORIGINS), apart(trained), strict=True)
        return [Tally.of(what, numbers) for what, numbers in groups if numbers]

    @property
    def bars(self) -> list[tuple[str, int, list[tuple[str, bool, int]]]]:
        """Return a stacked bar of the printed numbers and one of those of authors' files: its
        total, and the parts as verdict, whether it needs training, and count.
        """
        bars = []
        for name, numbers in zip(ORIGINS, apart(self.numbers), strict=True):
            given = Counter((number.verdict, number.kind not in EXACT) for number in numbers)
            parts = [
                (in_words(str(verdict), trains), trains, given[str(verdict), trains])
                for verdict in Verdict
                for trains in (False, True)
                if given[str(verdict), trains]
            ]
            if parts:
                bars.append((name, len(numbers), parts))
        return bars

    @property
    def findings(self) -> list[tuple[Sheet, str]]:
        """Return the first finding of each table and figure."""
        return [(sheet, sheet.findings[0]) for sheet in self.sheets if sheet.findings]


@dataclass(frozen=True)
class Tally:
    """A line of counts."""

    what: str
    total: int
    verdicts: Mapping[str, int]
    single: int
    """How many of the numbers that were re-run at full scale rest on one run."""
    stale: Mapping[str, int]
    """By verdict, how many rest on a run of an earlier version."""

    def word(self, verdict: str) -> str:
        return in_words(verdict, self.what != COMPUTED)

    @classmethod
    def of(cls, what: str, numbers: Sequence[Number]) -> Tally:
        given = Counter(number.verdict for number in numbers)
        single = sum(number.seeds == 1 for number in judged(numbers))
        stale = Counter(number.verdict for number in numbers if number.stale)
        return cls(what, len(numbers), {name: given[name] for name in STATES}, single, stale)


def summaries(
    sheets: Sequence[Sheet],
    papers: Mapping[str, Mapping[str, Any]],
    open_: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Summary]:
    """Return one summary per paper, in the order of the sheets."""
    return [
        Summary(
            paper,
            str(facts.get("title", paper)),
            int(facts.get("year") or 0),
            tuple(sheet for sheet in sheets if sheet.paper == paper),
            (open_ or {}).get(paper, {}),
            str(facts.get("sources", "")),
            str(facts.get("about", "")),
            tuple(facts.get("coverage", ())),
        )
        for paper in dict.fromkeys(sheet.paper for sheet in sheets)
        for facts in [papers.get(paper, {})]
    ]


# -- words -----------------------------------------------------------------------------------------


def title(summaries: Sequence[Summary]) -> str:
    """Return the finding of the whole report: the outcome of re-running at full scale so far."""
    toy = all(sheet.scale == "smoke" for summary in summaries for sheet in summary.sheets)
    rerun = [number for summary in summaries for number in judged(summary.numbers)]
    if not rerun:
        exact = [n for s in summaries for n in s.numbers if n.kind in EXACT]
        same = sum(n.verdict == Verdict.REPRODUCED for n in exact)
        match = f"{same} of {len(exact)} numbers that need no training match"
        return f"Toy run: {match}" if toy else f"{match}; no run at full scale yet"
    printed, filed = apart(rerun)
    parts = [f"{_count(len(printed), 're-run printed number')}: {_outcomes(printed)}"]
    if filed:
        parts.append(f"{_count(len(filed), 're-run value')} of authors' logs: {_outcomes(filed)}")
    return "; ".join(parts)


def _outcomes(judged: Sequence[Number]) -> str:
    """Return the verdicts on numbers that were re-run, in words; a zero is said, too."""
    counts, stale = (Counter(n.verdict for n in judged if n.stale >= only) for only in (0, 1))
    words = {
        Verdict.REPRODUCED: "reproduced",
        Verdict.DIFFERS: "differs" if counts[Verdict.DIFFERS] == 1 else "differ",
        Verdict.UNDECIDED: "undecided",
    }
    return ", ".join(
        f"{counts[verdict]:,} {word}{f' ({stale[verdict]:,} stale)' if stale[verdict] else ''}"
        for verdict, word in words.items()
    )


def lead(summaries: Sequence[Summary]) -> str:
    """Return what the report is about, and where its numbers stand."""
    papers = [summary for summary in summaries if summary.published]
    printed, filed = (sum(summary.origins[side] for summary in papers) for side in (0, 1))
    files = f" and {_count(filed, 'value')} of their authors' files" if filed else ""
    parts = [
        f"This report checks {_count(printed, 'printed number')} of {_count(len(papers), 'paper')}"
        f"{files}."
    ]
    if stated := sum(summary.sentences for summary in papers):
        rest = printed + filed - stated
        parts.append(
            f"{stated:,} of these stand in sentences alone and are checked as claims; the bars"
            f" below show the other {rest:,}, which stand in tables and figures."
        )
    return " ".join(parts)


def counts(summaries: Sequence[Summary]) -> dict[str, tuple[int, int]]:
    """Count the numbers of each verdict: those in print, and those of authors' files."""
    printed, filed = apart(number for summary in summaries for number in summary.numbers)
    return {
        name: (
            sum(state(number.verdict) == each for number in printed),
            sum(state(number.verdict) == each for number in filed),
        )
        for name, (each, _) in STATES.items()
    }


def judged(numbers: Iterable[Number]) -> list[Number]:
    """Return the numbers that need training and have a verdict at full scale."""
    return [n for n in numbers if n.kind not in EXACT and n.verdict not in UNJUDGED | {""}]


def span(hours: float) -> str:
    """Return a time in a unit that a reader can picture."""
    for size, name in ((8760, "year"), (24, "day"), (1, "hour")):
        if hours >= 1.5 * size:
            return _count(round(hours / size), name)
    return _count(max(1, round(hours * 60)), "minute")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
