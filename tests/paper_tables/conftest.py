"""Plug-ins are loaded as in the harness's tests."""

from tests.bench.conftest import plugged as plugged
