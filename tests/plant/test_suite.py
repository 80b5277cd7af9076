"""Only what is quiet without a mistake and speaks up in time with it has found it."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.plant import suite
from tests.plant.suite import FOUND, MISSED, TIMED_OUT, UNPROVEN, Idea

SPAWN = multiprocessing.get_context("spawn")
RED = [("test_it.py::test_it", "AssertionError")]


def speak(words: list[str], pipe: Any) -> None:
    pipe.send(words)


def die(pipe: Any) -> None:
    os._exit(1)


def hang(pipe: Any) -> None:
    time.sleep(3600)


def test_a_process_answers_or_dies_or_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert suite.answer(SPAWN, speak, ["a test"]) == ["a test"]
    assert suite.answer(SPAWN, die) is None
    monkeypatch.setattr(suite, "PATIENCE", 0.1)
    with pytest.raises(TimeoutError):
        suite.answer(SPAWN, hang)


@pytest.mark.parametrize(
    ("wrong", "right", "word"),
    [
        (RED, [], FOUND),
        (None, [], FOUND),
        ([], [], MISSED),
        (RED, RED, UNPROVEN),
        (TimeoutError, [], TIMED_OUT),
        (RED, TimeoutError, TIMED_OUT),
    ],
)
def test_what_becomes_of_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Any, right: Any, word: str
) -> None:
    def answer(*_: Any) -> Any:
        reply = {"right": right, "wrong": wrong}[(tmp_path / "code.py").read_text()]
        if reply is TimeoutError:
            raise TimeoutError
        return reply

    monkeypatch.setattr(suite, "answer", answer)
    (tmp_path / "code.py").write_text("right")
    (tmp_path / "test_it.py").touch()
    idea = Idea("an idea", "code.py", "right", "wrong", "test_it.py")
    text = idea.planted(tmp_path)
    assert text == "wrong"
    assert suite.outcome(None, tmp_path, idea, text)[0] == word
    assert (tmp_path / "code.py").read_text() == "right"
    (tmp_path / "test_it.py").unlink()
    assert idea.planted(tmp_path) is None
