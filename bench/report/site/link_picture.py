"""The picture that a link to the report shows elsewhere: 1200 by 630 pixels, the finding above a
bar per paper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from repfl.bench.report import overview
from repfl.paper_tables.core import figures

FILE = "preview.png"


def draw(summaries: Sequence[overview.Summary], out: Path, css: str) -> None:
    """Draw the published numbers of every paper by verdict, in the colours of the pages."""
    shown = [summary for summary in summaries if summary.published][::-1]
    colours = dict(re.findall(r"--(\w+): (#\w+)", css.partition("}")[0]))
    with figures.style():
        picture = figures.sheet(12, 6.3)
        picture.set_layout_engine("constrained", w_pad=0.3, h_pad=0.2)
        picture.suptitle(overview.title(summaries), fontsize=26, weight="bold", wrap=True)
        axes = picture.subplots()
        left = [0.0] * len(shown)
        for name, (state, _) in overview.STATES.items():
            shares = [{each: share for each, _, share in s.bar}.get(name, 0.0) for s in shown]
            axes.barh([s.title.partition(":")[0] for s in shown], shares, left=left, label=name,
                      color=colours[state], height=0.6)  # fmt: skip
            left = [a + b for a, b in zip(left, shares, strict=True)]
        axes.set(xlim=(0, 100))
        axes.set_xlabel("% of a paper's published numbers", fontsize=16)
        axes.tick_params(labelsize=18)
        axes.grid(visible=False)
        picture.legend(loc="outside lower center", ncols=len(overview.STATES), fontsize=16)
        picture.savefig(out / FILE, dpi=100, metadata={"Software": None})
