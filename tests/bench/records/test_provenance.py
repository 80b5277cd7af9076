"""Where a number comes from: whatever may change its bits changes the platform's fingerprint."""

from __future__ import annotations

import pytest
import torch

from repfl.bench.records import provenance
from repfl.bench.running.task import Options
from repfl.bench.running.work import prepare_process


def fingerprint() -> str:
    return str(provenance.platform_of("cpu", "fp64")["fingerprint"])


def test_a_platform_is_what_its_kernels_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provenance.blas()
    found, known = [fingerprint()], provenance.libraries()
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "blas", lambda: ["openblas-another"])
        found.append(fingerprint())
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "libraries", lambda: {**known, "scipy": "another"})
        found.append(fingerprint())
    for variable in provenance.KERNEL_VARIABLES:
        with monkeypatch.context() as patched:
            patched.setenv(variable, "another")
            found.append(fingerprint())
    assert len(set(found)) == len(found)
    assert fingerprint() == found[0]


def test_cells_are_computed_by_one_thread_whatever_library_computes() -> None:
    from threadpoolctl import threadpool_info

    prepare_process(Options())
    assert torch.get_num_threads() == 1
    assert {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    } == {1}
