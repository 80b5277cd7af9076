"""Curves and counts as short text, from which they come back exactly."""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd


class Curve(NamedTuple):
    """Values by round."""

    rounds: np.ndarray
    values: np.ndarray


class Packed(NamedTuple):
    """A curve as its file has it."""

    rounds: str
    values: str

    @property
    def curve(self) -> Curve:
        return Curve(unpack_rounds(self.rounds), unpack(self.values))


class Counts(NamedTuple):
    """How many of its own test samples each client's model got right in the reported round."""

    clients: np.ndarray  # int64 [n]
    correct: np.ndarray  # int64 [n]
    total: np.ndarray  # int64 [n]


SPAN = r"\d+:\d+:[1-9]\d*"
NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)(?:\*[1-9]\d*)?"
SPANS, NUMBERS = (re.compile(rf"(?:{each}(?: {each})*)?") for each in (SPAN, NUMBER))
COUNT = re.compile(r"\*(\d+)")


def by_name(frame: pd.DataFrame | None) -> dict[str, Curve]:
    """Curves by name, in the order in which they were first noted."""
    if frame is None or frame.empty:
        return {}
    codes, names = pd.factorize(frame["name"])
    order = np.argsort(codes, kind="stable")
    cuts = np.cumsum(np.bincount(codes))[:-1]
    rounds, values = (
        np.split(frame[field].to_numpy()[order], cuts) for field in ("round", "value")
    )
    return {str(name): Curve(*pair) for name, *pair in zip(names, rounds, values, strict=True)}


def pack(values: np.ndarray) -> str:
    """Numbers in as many digits as bring them back, whole ones without a point; a number that
    repeats is written once, with its count.
    """
    runs = ((text, len(list(run))) for text, run in groupby(map(_plain, map(float, values))))
    return " ".join(f"{text}*{count}" if count > 1 else text for text, count in runs)


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def unpack(text: str) -> np.ndarray:
    """The numbers of `pack`."""
    pairs = [token.partition("*") for token in text.split()]
    return np.repeat(
        [float(value) for value, _, _ in pairs], [int(count or 1) for _, _, count in pairs]
    )


def how_many(text: str) -> int:
    """How many numbers `unpack` would find; ValueError where it would find none of that form."""
    if not NUMBERS.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a list of numbers")
    return len(text.split()) + sum(int(count) - 1 for count in COUNT.findall(text))


def pack_rounds(rounds: np.ndarray) -> str:
    """Spans of evenly spaced rounds, first:last:step."""
    spans: list[list[int]] = []
    for each in map(int, rounds):
        last = spans[-1] if spans else []
        if len(last) == 1 or (last and each - last[-1] == last[1] - last[0]):
            last.append(each)
        else:
            spans.append([each])
    return " ".join(
        f"{span[0]}:{span[-1]}:{span[1] - span[0] if len(span) > 1 else 1}" for span in spans
    )


def unpack_rounds(text: str) -> np.ndarray:
    """The rounds of `pack_rounds`."""
    spans = [[int(number) for number in span.split(":")] for span in text.split()]
    return np.concatenate(
        [np.arange(first, last + 1, step, dtype=np.int64) for first, last, step in spans]
    )


def how_many_rounds(text: str) -> int:
    """The same of `unpack_rounds`."""
    if not SPANS.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a list of spans, first:last:step")
    spans = [[int(number) for number in span.split(":")] for span in text.split()]
    return sum(len(range(first, last + 1, step)) for first, last, step in spans)


def pack_counts(counts: Counts | None) -> str:
    """Clients, correct and total, one after the other; empty where the counts were not kept."""
    if counts is None:
        return ""
    return "|".join((pack_rounds(counts.clients), pack(counts.correct), pack(counts.total)))


def unpack_counts(text: str) -> Counts | None:
    """The counts of `pack_counts`."""
    if not text:
        return None
    clients, correct, total = text.split("|")
    return Counts(
        unpack_rounds(clients), unpack(correct).astype(np.int64), unpack(total).astype(np.int64)
    )


def check_counts(text: str) -> None:
    """ValueError where `unpack_counts` would not give as many clients as correct and total."""
    clients, correct, total = text.split("|") if text else ("", "", "")
    if not how_many_rounds(clients) == how_many(correct) == how_many(total):
        raise ValueError("counts of clients, correct and total differ in length")
