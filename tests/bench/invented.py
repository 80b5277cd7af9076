"""Parts of records that no run made."""

from __future__ import annotations

from typing import Any

from repfl.bench.store.contents import Metrics, Provenance

VALUE = Metrics(value=0.5, round=None)


def origin(**fields: Any) -> Provenance:
    """How an invented run was made."""
    some = {
        "device": "cpu",
        "precision": "default",
        "chunk": 1,
        "libraries": {"python": "3.11", "numpy": "2.0"},
        "platform": {"device": "some processor", "torch": "2.0", "fingerprint": "some platform"},
        "finished": "2026-11-28",
        "data": {},
        "partition": "1" * 64,
        "digests": {},
    }
    return Provenance.model_validate(some | fields)
