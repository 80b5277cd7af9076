"""Imported by the process from which cells are forked: what every process would otherwise find out
for itself is known there already.
"""

from repfl.bench.run.machine import prepare_process
from repfl.bench.run.task import Options
from repfl.bench.store import provenance

prepare_process(Options())
provenance.commit()
provenance.platform_of("cpu", "default")
