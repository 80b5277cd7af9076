"""The README's picture: the first screen of the report, as a browser without a window draws it.

repfl report --paper fedobp --paper fedpurin --paper fedselect --paper pfeddst --paper star-pfl
python -m repfl.bench.pages.picture report/index.html
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from repfl.bench.errors import INPUT, UserError
from repfl.bench.grid import grid as grids

FIGURE = grids.ROOT.parent / "bench" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCREEN = (1200, 900)
COLOURS = 64


def draw(page: Path, path: Path) -> None:
    """A page's first screen, in few colours."""
    if not page.is_file():
        raise UserError(f"no page {page}; `repfl report` writes report/index.html")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UserError(f"a picture needs a browser: one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "shot.png")
        size = ",".join(map(str, SCREEN))
        asked = ["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
        asked += [f"--window-size={size}", f"--user-data-dir={folder}", f"--screenshot={shot}"]
        subprocess.run(
            [browser, *asked, page.resolve().as_uri()], check=True, capture_output=True, timeout=60
        )
        with Image.open(shot) as taken:
            taken.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    try:
        draw(Path(*sys.argv[1:2]), FIGURE)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(INPUT)
