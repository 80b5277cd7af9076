"""What our numbers say, as sentences in a page: those of its tables and figures, in their order."""

from __future__ import annotations

from repfl.bench.pages import committed

NONE = "Nothing can be said yet: too few runs.\n"


def block(paper: str) -> str:
    """A list per table and figure that says anything at the paper scale."""
    said = [
        "\n".join(
            [f"**{result.title}** (`{result.key}`)\n", *(f"* {line}" for line in result.findings)]
        )
        for result in committed.of(paper, "paper")
        if result.findings
    ]
    return "\n\n".join(said) + "\n" if said else NONE
