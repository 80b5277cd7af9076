"""`nox -s site`: the Markdown files as a site; a link that leads nowhere fails its build."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as the session builds it, without the report."""
    pytest.importorskip("mkdocstrings", reason="the site needs the extra `site`")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    out = tmp_path_factory.mktemp("pages") / "site"
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(out)))
    return out


def test_nothing_of_a_page_is_fetched_from_elsewhere(built: Path) -> None:
    for page in built.rglob("*.html"):
        text = page.read_text("utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]* src="?(https?:[^"\s>]+)', text)
        fetched += re.findall(r'<link[^>]* rel="?stylesheet"?[^>]*href="?(https?:[^"\s>]+)', text)
        assert fetched == [], page.name


def test_a_report_in_the_site_leads_to_the_pages_beside_it(built: Path, tmp_path: Path) -> None:
    from docs import hooks
    from tests.bench.report import book

    book.write(tmp_path / "report")
    assert 'href="../index.html"' not in (tmp_path / "report" / "index.html").read_text("utf-8")
    hooks.bring(tmp_path / "report", tmp_path / "site" / "report")
    first = (tmp_path / "site" / "report" / "index.html").read_text("utf-8")
    assert '<a href="../index.html">Documentation</a>' in first
    inner = (tmp_path / "site" / "report" / "paper-a" / "index.html").read_text("utf-8")
    assert '<a href="../../paper_tables/paper_a/index.html">' in inner
    assert "data-docs" not in first + inner
    page = (built / "paper_tables" / "star_pfl" / "index.html").read_text("utf-8")
    assert "../../report/star-pfl/index.html" in page
