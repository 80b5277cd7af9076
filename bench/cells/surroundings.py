"""Settings of a whole process that would change the numbers of every method in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from typing import Any

SWITCH = re.compile(
    r"_get_(\w+_(?:enabled|benchmark|deterministic|reduction|accumulation|allow_tf32|backend|algorithms\w*|memory))"
)
"""PyTorch's own getters of what `torch.backends` and the functions about determinism set; a newer
PyTorch has more of them.
"""
BACKENDS = ("generic", "cuda", "mkldnn")
OPERATIONS = ("all", "conv", "matmul", "rnn")


def settings() -> dict[str, Any]:
    """Every such setting by name, as values that can be compared."""
    import pickle
    import random

    import numpy as np
    import torch
    from threadpoolctl import threadpool_info

    precision = vars(torch._C).get("_get_fp32_precision_getter")
    tiny = torch.tensor(5e-324, dtype=torch.float64, device="cpu")
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "the precision of float32 matrix products": _read(torch.get_float32_matmul_precision),
        "the grad mode": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
        ),
        "autocast": [
            (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        ],
        "the number of threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "the flushing of denormal numbers": float(tiny * 1) == 0,
        "PyTorch's random state": _digest(torch.get_rng_state().numpy().tobytes()),
        "NumPy's random state": _digest(pickle.dumps(np.random.get_state())),  # noqa: NPY002  to see that nobody draws from it
        "Python's random state": _digest(pickle.dumps(random.getstate())),
        **{f"PyTorch's {name}": _read(getter) for name, getter in _switches().items()},
        **{
            f"the precision of {op} in {at}": _read(precision, at, op)
            for at in BACKENDS
            for op in OPERATIONS
        },
        **{
            f"the threads of {library['filepath']}": library["num_threads"]
            for library in threadpool_info()
        },
    }


@lru_cache(maxsize=1)
def _switches() -> dict[str, Any]:
    import torch

    return {
        match[1]: getattr(torch._C, name)
        for name in dir(torch._C)
        if (match := SWITCH.fullmatch(name))
    }


def _read(getter: Any, *arguments: str) -> str | None:
    """What a getter says; none where it does not answer, as PyTorch's older ones once a newer one
    was used.
    """
    try:
        return str(getter(*arguments))
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


def _digest(state: bytes) -> str:
    return sha256(state).hexdigest()[:12]


def moved(before: Mapping[str, Any]) -> str:
    """The first setting that is no longer what it was, with both values; empty: none has moved."""
    for name, now in settings().items():
        if name in before and None not in (now, before[name]) and now != before[name]:
            return f"{name} from {before[name]} to {now}"
    return ""


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Whatever is drawn in here is as if it had not been: for imports and the reading of data,
    since some libraries draw random numbers while they are imported.
    """
    import random

    import numpy as np
    import torch

    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  to put it back
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(own)
