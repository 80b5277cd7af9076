"""The methods that misbehave on purpose are those of the harness's tests."""

from tests.bench.conftest import faulty as faulty
