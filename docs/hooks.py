"""The site's pages are the repository's own Markdown files, at their own places; so links between
them lead as they do in the repository. Whatever else a page links comes along as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Navigation

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "bench/*.md", "paper_tables/**/*.md", ".github/actions/*/*.md")
YOURS = "CONTRIBUTING.md"
INSTALL = f"Install once, and what `--plugin` does: [Contributing]({YOURS})."
"""Stands at the head of CONTRIBUTING.md, which the page of a part lacks."""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
PAPER = re.compile(r"paper_tables/(\w+)/README\.md")
CODE = re.compile(r"^(```|~~~).*?^\1", flags=re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Hand over the pages, the parts of CONTRIBUTING.md, and the files that pages link."""
    for name in sorted({path.relative_to(ROOT).as_posix() for path in pages()}):
        page = File.generated(config, name, abs_src_path=str(ROOT / name))
        page.dest_uri = page.dest_uri.removeprefix(".")  # hosts leave hidden folders out
        files.append(page)
    for name, text in parts((ROOT / YOURS).read_text("utf-8")):
        files.append(File.generated(config, name, content=text))
    for name in sorted(linked()):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_nav(nav: Navigation, config: Any, files: Files) -> Navigation:
    """The report is no page of Markdown: it lies beside them."""
    nav.items.insert(1, Link("Report", "report/index.html"))
    return nav


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A folder has no page: its name stays, without a link."""
    of_docs = ROOT / "docs" / page.file.src_uri
    base = (of_docs if of_docs.is_file() else ROOT / page.file.src_uri).parent

    def kept(match: re.Match[str]) -> str:
        target = base / urllib.parse.unquote(match[2])
        return match[1] if target.is_dir() else match[0]

    found = re.sub(r"\[([^\]]*)\]\(([^)#\s:]+)\)", kept, markdown)
    if of_docs.is_file():  # one folder higher on the site
        up = "../" * len(of_docs.relative_to(ROOT / "docs").parents)
        found = found.replace(f"]({up}", f"]({up.removeprefix('../')}")
    paper = PAPER.fullmatch(page.file.src_uri)
    return beside_report(found, paper[1].replace("_", "-")) if paper else found


def beside_report(markdown: str, paper: str) -> str:
    """A paper's page with a way to its numbers, below the title."""
    title, rest = markdown.split("\n", 1)
    link = f"../../report/{paper}/index.html"
    return f'{title}\n\n<a href="{link}">Its numbers, one by one, in the report</a>\n{rest}'


def on_post_build(config: Any) -> None:
    """Put the report beside the pages, where REPFL_REPORT says that there is one."""
    if report := os.environ.get("REPFL_REPORT"):
        bring(Path(report), Path(config.site_dir) / "report")


def bring(report: Path, to: Path) -> None:
    """Copy a report, and show its links to the pages of this site: by itself it hides them."""
    shutil.copytree(report, to, dirs_exist_ok=True)
    for page in to.rglob("*.html"):
        up = "../" * len(page.relative_to(to).parts)
        text = page.read_text("utf-8")
        page.write_text(text.replace('hidden data-docs="', f'href="{up}'), encoding="utf-8")


def pages() -> Iterator[Path]:
    """Every Markdown file that is a page."""
    for pattern in PAGES:
        yield from ROOT.glob(pattern)


def parts(text: str) -> Iterator[tuple[str, str]]:
    """A page per kind of thing that one can add: `## A method` is yours-method.md."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title = part.splitlines()[0]
        if found := re.match(r"An? (.*)", title):
            body = part.removeprefix(title)
            yield f"yours-{found[1].replace(' ', '-')}.md", f"# {title}\n\n{INSTALL}\n{body}"


def linked() -> set[str]:
    """Files within the repository that pages link and that are no pages themselves."""
    found: set[str] = set()
    for page in [*pages(), *ROOT.glob("docs/**/*.md")]:
        for target, _ in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
            path = (page.parent / urllib.parse.unquote(target)).resolve()
            if "://" not in target and path.is_file() and path.is_relative_to(ROOT):
                found.add(path.relative_to(ROOT).as_posix())
    return found - {page.relative_to(ROOT).as_posix() for page in pages()}
