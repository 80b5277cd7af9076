"""A Ray cluster: joining it, or making one of this machine alone, and what it has."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from repfl.bench.errors import UserError, one_line
from repfl.bench.run.task import Options
from repfl.bench.run.work import ONE_THREAD
from repfl.bench.store.provenance import KERNEL_VARIABLES, ROOT

LOCAL_STORE = 100 << 20
"""Bytes of Ray's object store on a cluster of our own: outcomes are small."""


def connect(address: str = "", workers: int | None = None) -> Any:
    """Join the cluster, or make one on this machine; the module `ray`."""
    try:
        import ray
    except ImportError:
        raise UserError(
            '--executor ray: Ray is not installed; pip install "repfl[ray]", or use --executor'
            " processes"
        ) from None
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check(address)
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        with _own_signals():
            _init(ray, address, workers)
    return ray


def _check(address: str) -> None:
    """Refuse what is no address or answers to nobody; Ray itself would go on trying for minutes."""
    host, colon, port = address.rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or not port.isdecimal() or "/" in host:
        raise UserError(
            f"--address {address!r} is not valid; run repfl on a machine of the cluster; valid:"
            " auto, local, HOST:PORT"
        )
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--address {address}: no Ray cluster answers there: {one_line(error)}"
        ) from None


def _init(ray: Any, address: str, workers: int | None) -> None:
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "runtime_env": {"env_vars": _variables()},
    }
    if address == "local":
        quiet |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": LOCAL_STORE,
        }
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UserError(
            f"--address {address}: no Ray cluster answers there: {one_line(error)}"
        ) from None


def _variables() -> dict[str, str]:
    """What processes on all machines see: this clone, one thread, and whatever the user's data and
    numeric kernels depend on.
    """
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("REPFL_") or name in KERNEL_VARIABLES
    }
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return passed | {"PYTHONPATH": path} | ONE_THREAD


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; what a signal means here is the runner's to say."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(
                ValueError
            ):  # not in the main thread, where Ray has not touched them either
                signal.signal(number, handler)


def resolve_device(wanted: str, address: str, workers: int | None) -> str:
    """`auto` is the GPU where the cluster has one; this machine need not."""
    present = connect(address, workers).cluster_resources().get("GPU", 0) > 0
    if wanted == "cuda" and not present:
        raise UserError(
            "--device cuda: the Ray cluster has no GPU; use --device cpu, or see `ray status`"
        )
    return "cuda" if present else "cpu"


def capacity(options: Options) -> int:
    """Cells that the cluster runs side by side."""
    have = connect(options.address).cluster_resources()
    found = (
        have.get("CPU", 1)
        if options.device == "cpu"
        else min(have.get("CPU", 1), have.get("GPU", 0) * max(options.per_gpu, 1))
    )
    return max(1, int(found))
