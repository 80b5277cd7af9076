"""The tests, and every process they start, compute as cells do: with one thread each, however
pytest was called; and no calibration of this machine moves what they estimate.
"""

from __future__ import annotations

import os
import tempfile

os.environ["REPFL_PACE"] = f"{tempfile.mkdtemp(prefix='repfl-pace-')}/pace.json"
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before anything imports torch
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process would compile torch anew
os.environ.pop("GITHUB_STEP_SUMMARY", None)  # what tests write is no page of the job they run in
