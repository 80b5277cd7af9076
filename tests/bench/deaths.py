"""Processes that die before the n-th change to a folder, for every n.

They are forks of this process, which has imported everything, so that many deaths cost seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from repfl.bench.run.machine import prepare_process
from repfl.bench.run.task import Options

FORK = multiprocessing.get_context("fork")
MOVES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir")


def live(root: str, work: Callable[[], Any], moves: int, pipe: Any) -> None:
    """Do some work, and die before the given number of changes below a folder; 0: do not."""
    made = [0]

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        writes = (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if (event in MOVES or writes) and str(arguments[0]).startswith(root):
            made[0] += 1
            if made[0] == moves:
                os.kill(os.getpid(), signal.SIGKILL)

    prepare_process(Options())
    pipe.send("begun")
    sys.addaudithook(count)
    pipe.send((work(), made[0]))


def begin(root: Path, work: Callable[[], Any], moves: int = 0) -> tuple[Any, Any]:
    here, there = FORK.Pipe()
    process = FORK.Process(target=live, args=(str(root), work, moves, there))
    process.start()
    there.close()
    assert here.recv() == "begun"
    return process, here


def last_words(process: Any, pipe: Any) -> Any:
    """What the work returned and how many changes it made; nothing if it was killed."""
    try:
        return pipe.recv()
    except EOFError:
        process.join()
        assert process.exitcode == -signal.SIGKILL
        return None
    finally:
        process.join()
