"""Addresses within a report, and text as HTML: links to the papers and code that it names as
`arXiv 2102.07078` or `OWNER/NAME at COMMIT`, and to a paper's notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
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
"""What addresses write out."""


def slug(text: str) -> str:
    """A name as part of an address."""
    written = "".join(LETTERS.get(letter, letter) for letter in text)
    return re.sub(r"[^a-z0-9.]+", "-", written.lower()).strip("-") or "x"


def addressed(names: Iterable[str]) -> list[str]:
    """Addresses for names, each once: of equal ones the later are counted."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return found


# -- papers and code ------------------------------------------------------------------------------


NAMED = re.compile(
    r"arXiv (?P<paper>\d{4}\.\d{5})"
    r"|(?P<repository>[\w.-]+/[\w.-]+) at (?P<commit>(?=[a-f]*\d)[0-9a-f]{7,40})\b"
    r"|https://[^\s;,)]+[\w/]"
)


def named(text: str) -> Iterator[tuple[str, str]]:
    """Every name within a text that has an address, with it."""
    yield from ((match[0], _address(match)) for match in NAMED.finditer(text))


def linked(text: str) -> Markup:
    """The text with these names as links."""
    parts, at = [], 0
    for match in NAMED.finditer(text):
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


def emphasise(text: str) -> Markup:
    """Return text with words between asterisks in italics."""
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(text))))


NOTED = re.compile(r"(README, )(\d+)((?: (?:and|to) \d+|, \d+)*)")


def noted(text: str, there: bool = True, folder: str = "") -> Markup:
    """Return text in which every “README, 17” links to that row of the notes in a folder."""
    if not there:
        return escape(text)

    def link(match: re.Match[str]) -> str:
        row = f'<a href="{escape(folder)}notes.html#note-'
        rest = re.sub(r"\d+", lambda n: f'{row}{n[0]}">{n[0]}</a>', match[3])
        return f'{row}{match[2]}">notes, {match[2]}</a>{rest}'

    told = NOTED.sub(link, str(escape(text)))
    return Markup(told.replace("README, ", f'<a href="{escape(folder)}notes.html">notes</a>, '))


def readme(text: str) -> Markup:
    """Return a paper's README as HTML: numbered rows have an anchor, links to files have none."""
    from markdown_it import MarkdownIt

    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    made = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    made = re.sub(r"<tr>(\s*<td[^>]*>)(\d+)(</td>)", r'<tr id="note-\2">\1\2\3', made)
    made = re.sub(
        r"<h(\d)>(.*?)</h\1>", lambda m: f'<h{m[1]} id="{anchor(m[2])}">{m[2]}</h{m[1]}>', made
    )
    made = re.sub(r'<img[^>]*alt="([^"]*)"[^>]*>', r"<em>\1</em>", made)
    made = re.sub(r'<a href="(?!https?:|#)[^"]*">(.*?)</a>', r"\1", made, flags=re.DOTALL)
    made = made.replace(
        "<table>",
        '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        '<table class="grid text">',
    )
    return Markup(made.replace("</table>", "</table></div>"))


def anchor(heading: str) -> str:
    """Return the anchor that Markdown gives a heading."""
    text = re.sub(r"<.*?>|[^\w -]", "", heading.lower())
    return text.replace(" ", "-")
