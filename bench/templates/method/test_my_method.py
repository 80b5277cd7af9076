"""The contract of all methods: finite, deterministic, resumable, nothing learnt without message."""

from __future__ import annotations

from pathlib import Path

from repfl.bench.cli.main import call

FILE = Path(__file__).with_name("my_method.py")


def test_my_method_keeps_the_contract() -> None:
    assert call(["methods", "my-method", "--contract", "--plugin", str(FILE)]) == 0
