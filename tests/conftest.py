"""The tests, and every process they start, compute as cells do: with one thread each, however
pytest was called.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before anything imports torch
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process would compile torch anew
