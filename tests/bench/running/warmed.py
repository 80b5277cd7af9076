"""Imported by the process from which cells are forked: what every process would otherwise find out
for itself is known there already.
"""

from repfl.bench.records import provenance
from repfl.bench.running.task import Options
from repfl.bench.running.work import prepare_process

prepare_process(Options())
provenance.commit()
provenance.platform_of("cpu", "default")
