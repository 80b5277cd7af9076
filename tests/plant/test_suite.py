"""Only what a test or the gate says in time has found a mistake."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

from tests.plant.suite import FOUND, MISSED, TIMED_OUT, answer, outcome

SPAWN = multiprocessing.get_context("spawn")


def speak(words: list[str], pipe: Any) -> None:
    pipe.send(words)


def die(pipe: Any) -> None:
    os._exit(1)


def hang(pipe: Any) -> None:
    time.sleep(3600)


def test_whoever_does_not_answer_in_time_has_found_nothing() -> None:
    assert answer(SPAWN, speak, ["a test"]) == ["a test"]
    assert answer(SPAWN, die) is None
    assert outcome(lambda: answer(SPAWN, hang, patience=0.1)) == (TIMED_OUT, "")
    assert outcome(lambda: "a test") == (FOUND, "a test")
    assert outcome(lambda: "") == (MISSED, "")
