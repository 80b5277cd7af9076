"""repfl: a benchmark suite with a reproducibility harness for personalised federated learning.

The four folders of the repository are imported below this name, by symbolic links in a clone and as
ordinary folders in a wheel, so that they live beside packages that are called `datasets` too.
"""

from __future__ import annotations

from pathlib import Path

from repfl import deferred

if not (Path(__file__).parent / "bench").is_dir():  # a copy that lost its symbolic links
    __path__.append(str(Path(__file__).parents[1]))

deferred.install()
