"""One task after another, in this process, which goes on as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from repfl.bench.run.devices import places
from repfl.bench.run.task import Options, Outcome, Task, Tell
from repfl.bench.run.work import prepare_process, run_task
from repfl.bench.store.provenance import blas


def execute(
    tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Run tasks here, on the first GPU if on one."""
    if not tasks:
        return
    options = replace(options, device=places(options.device)[0], alarm=True)
    with _given_back():
        prepare_process(options)
        for task in tasks:
            if stop():
                return
            yield run_task(task, options, tell, stop)


@contextmanager
def _given_back() -> Iterator[None]:
    """Cells compute on one thread with deterministic kernels; what a notebook does after them has
    its own settings again.
    """
    import torch
    from threadpoolctl import threadpool_limits

    blas()  # loads what has threads
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn
    benchmark, deterministic = cudnn.benchmark, cudnn.deterministic
    try:
        with threadpool_limits(None):
            yield
    finally:
        torch.set_num_threads(threads)
        cudnn.benchmark, cudnn.deterministic = benchmark, deterministic
