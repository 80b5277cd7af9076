"""A GPU that is not there: tensors that claim to be on cuda, computed by the processor.

Inside `gpu()` the engine's CUDA path runs on any machine, and a `Report` tells what a real GPU
would have minded: tensors of two devices in one call, what may not be captured, races between
streams, memory that a graph reads after it was freed. It counts launches, host waits, copies,
captures and bytes. It knows nothing of real kernels: neither their speed nor their rounding, nor a
driver's limits.
"""

from tests.algorithms.impostor.driver import gpu
from tests.algorithms.impostor.report import Report

__all__ = ["Report", "gpu"]
