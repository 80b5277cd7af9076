"""What stands in for the driver: `torch.cuda` as the engine uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch

import torch

from tests.algorithms.impostor.calls import Calls
from tests.algorithms.impostor.graphs import Graph
from tests.algorithms.impostor.kernels import Kernels
from tests.algorithms.impostor.machine import Machine
from tests.algorithms.impostor.report import Report
from tests.algorithms.impostor.streams import DEFAULT, Stream

GIB = 1 << 30


@contextmanager
def gpu() -> Iterator[Report]:
    """A machine with one GPU inside, and the report on how it was used."""
    machine = Machine()
    driver = patch.multiple(torch.cuda, **_driver(machine))

    def close(device: int, pool: Any) -> None:
        machine.open_pool = False

    pools = patch.object(torch._C, "_cuda_endAllocateToPool", close, create=True)
    with driver, pools, _autocast(), Kernels(machine), Calls(machine):
        yield machine.report


@contextmanager
def _autocast() -> Iterator[None]:
    """Lower precision of the GPU is lower precision of the processor."""
    real = torch.autocast

    def autocast(kind: str, *args: Any, **more: Any) -> Any:
        return real("cpu" if kind == "cuda" else kind, *args, **more)

    with patch.object(torch, "autocast", autocast):
        yield


def _driver(machine: Machine) -> dict[str, Callable[..., Any]]:
    clock, pools = machine.clock, count(1)

    def synchronize(device: Any = None) -> None:
        machine.refuse_in_capture("synchronize")
        machine.report.count("waits", "synchronize")
        clock.all_wait()

    def alive(device: Any = None) -> int:
        return clock.alive

    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "empty_cache": lambda: None,
        "set_device": lambda device=None: None,
        "reset_peak_memory_stats": lambda device=None: None,
        "get_device_name": lambda device=None: "Impostor",
        "get_device_capability": lambda device=None: (9, 0),
        "mem_get_info": lambda device=None: (80 * GIB - clock.alive, 80 * GIB),
        "memory_stats": lambda device=None: {"num_ooms": 0},
        "max_memory_reserved": alive,
        "max_memory_allocated": alive,
        "memory_reserved": alive,
        "memory_allocated": alive,
        "synchronize": synchronize,
        "Stream": lambda device=None, priority=0: Stream(clock),
        "stream": clock.on,
        "current_stream": lambda device=None: Stream(clock, clock.current),
        "default_stream": lambda device=None: Stream(clock, DEFAULT),
        "CUDAGraph": partial(Graph, machine),
        "graph_pool_handle": lambda: (0, next(pools)),
        "is_current_stream_capturing": lambda: machine.capture is not None,
    }
