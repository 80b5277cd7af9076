"""Settings and random states of the process, which change the numbers of every method in it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from operator import attrgetter
from typing import Any

BACKENDS = (
    *("fp32_precision", "cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic"),
    *("cudnn.allow_tf32", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.enabled", "mkldnn.deterministic", "mkldnn.allow_tf32"),
    *("mkldnn.conv.fp32_precision", "mkldnn.matmul.fp32_precision", "mkldnn.rnn.fp32_precision"),
    *("cuda.matmul.allow_tf32", "cuda.matmul.fp32_precision"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_accumulation",
)
"""Settings below `torch.backends`."""


def settings() -> dict[str, str | None]:
    """Return all settings by name, as texts that can be compared."""
    import numpy as np
    import torch
    from threadpoolctl import threadpool_info

    backends, tiny = torch.backends, torch.tensor(5e-324, dtype=torch.float64, device="cpu")
    getters: dict[str, Callable[[], Any]] = {
        "the default dtype": torch.get_default_dtype,
        "the default device": torch.get_default_device,
        "the precision of float32 matrix products": torch.get_float32_matmul_precision,
        "the use of deterministic algorithms": torch.get_deterministic_debug_mode,
        "the grad mode": lambda: (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
        ),
        "autocast": lambda: [
            (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        ],
        "the number of threads": torch.get_num_threads,
        "the flushing of denormal numbers": lambda: float(tiny * 1) == 0,
        "the attention kernels": lambda: (
            backends.cuda.flash_sdp_enabled(),
            backends.cuda.mem_efficient_sdp_enabled(),
            backends.cuda.math_sdp_enabled(),
        ),
        "PyTorch's random state": lambda: _digest(torch.get_rng_state().numpy().tobytes()),
        "NumPy's random state": lambda: _digest(pickle.dumps(np.random.get_state())),  # noqa: NPY002  to see that nobody draws from it
        "Python's random state": lambda: _digest(pickle.dumps(random.getstate())),
        **{f"torch.backends.{name}": _getter(backends, name) for name in BACKENDS},
    }
    threads = {
        f"the threads of {library['filepath']}": str(library["num_threads"])
        for library in threadpool_info()
    }
    return {name: _read(getter) for name, getter in getters.items()} | threads


def _getter(backends: Any, name: str) -> Callable[[], Any]:
    return lambda: attrgetter(name)(backends)


def _read(getter: Callable[[], Any]) -> str | None:
    """Return a setting as text; None if this PyTorch lacks it, or refuses to read it."""
    try:
        return str(getter())
    except (AttributeError, RuntimeError):
        return None


def _digest(state: bytes) -> str:
    return sha256(state).hexdigest()[:12]


def changed_setting(before: Mapping[str, str | None]) -> str:
    """Return the first setting that has changed, with both values; empty if none has."""
    for name, now in settings().items():
        if name in before and None not in (now, before[name]) and now != before[name]:
            return f"{name} from {before[name]} to {now}"
    return ""


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Context manager: restore the random states; some libraries draw while they are imported."""
    import numpy as np
    import torch

    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  to put it back
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(own)
