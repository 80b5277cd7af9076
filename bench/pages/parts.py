"""Parts of Markdown pages that a command writes: what stands between `<!-- name: command -->` and
`<!-- end of name -->`.
"""

from __future__ import annotations

import re
from pathlib import Path


def _between(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: .*? -->\n)(.*?)(<!-- end of {name} -->)", flags=re.DOTALL)


def read(page: Path, name: str) -> str:
    """The text that stands there; nothing where the page has no such part."""
    found = _between(name).search(page.read_text(encoding="utf-8"))
    return found[2] if found else ""


def write(page: Path, name: str, text: str) -> None:
    """Put another text there."""
    page.write_text(
        _between(name).sub(
            lambda match: match[1] + text + match[3], page.read_text(encoding="utf-8")
        ),
        encoding="utf-8",
    )
