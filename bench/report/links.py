"""Addresses within a report, and text as HTML: links to the papers and code that it names as
`arXiv 2102.07078` or `OWNER/NAME at COMMIT`, and to a paper's notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from posixpath import normpath
from typing import Any

from markupsafe import Markup, escape

LETTERS = {
    "α": "alpha",
    "β": "beta",
    "λ": "lambda",
    "τ": "tau",
    "θ": "theta",
    "Δ": "delta",
    "↑": "up",
    "↓": "down",
    "∞": "inf",
    "+": "plus",
}
"""Letters that addresses spell out."""


def slug(text: str) -> str:
    """Return a name as part of an address."""
    written = "".join(LETTERS.get(letter, letter) for letter in text)
    return re.sub(r"[^a-z0-9.]+", "-", written.lower()).strip("-") or "x"


def addressed(names: Iterable[str]) -> list[str]:
    """Return addresses for names; repeated names get a number."""
    counts: dict[str, int] = {}
    addresses = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        addresses.append(name if counts[name] == 1 else f"{name}-{counts[name]}")
    return addresses


# -- papers and code ------------------------------------------------------------------------------


REFERENCE = re.compile(
    r"arXiv (?P<paper>\d{4}\.\d{5})"
    r"|(?P<repository>[\w.-]+/[\w.-]+) at (?P<commit>(?=[a-f]*\d)[0-9a-f]{7,40})\b"
    r"|https://[^\s;,)]+[\w/]"
)


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yield every reference in a text with its address."""
    yield from ((match[0], _address(match)) for match in REFERENCE.finditer(text))


def linked(text: str) -> Markup:
    """Return the text with its references as links."""
    parts, at = [], 0
    for match in REFERENCE.finditer(text):
        address = _address(match)
        name = address.split("/")[2] if match[0] == address else match[0]
        parts += [
            escape(text[at : match.start()]),
            Markup('<a href="{}">{}</a>').format(address, name),
        ]
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def _address(match: re.Match[str]) -> str:
    if match["paper"]:
        return f"https://arxiv.org/abs/{match['paper']}"
    if match["repository"]:
        return f"https://github.com/{match['repository']}/tree/{match['commit']}"
    return match[0]


# -- text ------------------------------------------------------------------------------------------


def embedded(value: Any) -> Markup:
    """Return JSON for a script element that nothing in it can close."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def coded(text: str) -> Markup:
    """Return text with words between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def unbroken(text: str) -> Markup:
    """Return text in which names such as CIFAR-10 stay on one line."""
    return Markup(re.sub(r"(\w+-\d+)", r'<span class="whole">\1</span>', str(escape(text))))


def emphasise(text: str) -> Markup:
    """Return text with words between asterisks in italics."""
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(text))))


NOTE = re.compile(r"(README, )(\d+)((?: (?:and|to) \d+|, \d+)*)")


def noted(text: str, has_notes: bool = True, folder: str = "") -> Markup:
    """Return text in which every “README, 17” links to that row of the notes in a folder."""
    if not has_notes:
        return escape(text)

    def link(match: re.Match[str]) -> str:
        row = f'<a href="{escape(folder)}notes.html#note-'
        more = re.sub(r"\d+", lambda n: f'{row}{n[0]}">{n[0]}</a>', match[3])
        return f'{row}{match[2]}">notes, {match[2]}</a>{more}'

    html = NOTE.sub(link, str(escape(text)))
    return Markup(html.replace("README, ", f'<a href="{escape(folder)}notes.html">notes</a>, '))


def readme(text: str, address: str = "", folder: str = "") -> Markup:
    """Return a paper's README as HTML: numbered rows have an anchor. Links to files of the
    repository lead to the `address` of the README's folder there. Without one they are no links,
    and name the file if the README's `folder` in the repository is given.
    """
    from markdown_it import MarkdownIt

    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    html = re.sub(r"<tr>(\s*<td[^>]*>)(\d+)(</td>)", r'<tr id="note-\2">\1\2\3', html)
    html = re.sub(
        r"<h(\d)>(.*?)</h\1>",
        lambda m: f'<h{m[1]} id="{anchor(unescape(m[2]))}">{m[2]}</h{m[1]}>',
        html,
    )
    html = re.sub(r'<img[^>]*alt="([^"]*)"[^>]*>', r"<em>\1</em>", html)

    def in_repository(link: re.Match[str]) -> str:
        if address:
            return f'<a href="{address}/{link[1]}">{link[2]}</a>'
        file = normpath(f"{folder}/{link[1].partition('#')[0]}")
        return f"{link[2]}: <code>{file}</code>" if folder else link[2]

    relative = r'<a href="(?!https?:|#|[\w./-]+\.html)([^"]*)">(.*?)</a>'
    html = re.sub(relative, in_repository, html, flags=re.DOTALL)
    html = html.replace(
        "<table>",
        '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        '<table class="grid text">',
    )
    return Markup(html.replace("</table>", "</table></div>"))


def anchor(heading: str) -> str:
    """Return the anchor that Markdown gives a heading."""
    text = re.sub(r"<.*?>|[^\w -]", "", heading.lower())
    return text.replace(" ", "-")
