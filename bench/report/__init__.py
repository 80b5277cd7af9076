"""The report: every artefact as csv, md, tex, png and pdf, and one page that holds them all."""

from __future__ import annotations

from repfl.bench.report.write import write_report

__all__ = ["write_report"]
