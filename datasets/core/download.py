"""Downloads: resumable, checksummed, with mirrors. pooch verifies and places the files; this adds
resuming and plain errors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import File
from repfl.datasets.core.store import unwritable

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all (0: unknown)
BLOCK = 1 << 18
TIMEOUT = (15, 60)  # seconds to connect, and between bytes


class Resuming:
    """A pooch downloader that keeps what has arrived in `<name>.part` and goes on from there the
    next time.
    """

    def __init__(self, part: Path, progress: Progress | None = None) -> None:
        self.part, self.progress = part, progress

    def __call__(self, url: str, output_file: Any, _: Any) -> None:
        """Bring the file to `output_file`, a path."""
        import requests

        have = self.part.stat().st_size if self.part.exists() else 0
        with self._ask(url, have) as reply:
            if (
                have and reply.status_code != requests.codes.partial_content
            ):  # the server cannot resume: start over
                self.part.unlink()
                have = 0
            if reply.status_code != requests.codes.requested_range_not_satisfiable:
                reply.raise_for_status()
                return self._receive(reply, have, output_file)
        with self._ask(url, 0) as reply:  # the part was already as long as the file, or longer
            reply.raise_for_status()
            return self._receive(reply, 0, output_file)

    def _ask(self, url: str, have: int) -> Any:
        """Request a file from some byte on."""
        import requests

        return requests.get(
            url, headers={"Range": f"bytes={have}-"} if have else {}, stream=True, timeout=TIMEOUT
        )

    def _receive(self, reply: Any, have: int, output_file: Any) -> None:
        """Append the body to the part file, and give it its name when it is whole."""
        import requests

        start, total = have, have + int(reply.headers.get("Content-Length") or 0)
        with self.part.open("ab") as file:
            for block in reply.iter_content(BLOCK):
                file.write(block)
                have += len(block)
                if self.progress:
                    self.progress(self.part.stem, have, total)
        if start < total and have < total:
            raise requests.ConnectionError("the connection ended early")
        self.part.replace(output_file)


def fetch(file: File, folder: Path, progress: Progress | None = None) -> Path:
    """Bring one official file to a folder, trying its addresses in turn; a file with the right
    checksum is not fetched again.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # names every file it fetches otherwise
    part = folder / f"{file.name}.part"
    troubles = []
    for url in file.urls:
        try:
            return Path(
                pooch.retrieve(
                    url, file.checksum, file.name, folder, downloader=Resuming(part, progress)
                )
            )
        except requests.RequestException as error:  # an OSError too, so it is caught first
            troubles.append(f"{url}: {_reason(error)}")
        except OSError as error:
            raise unwritable(folder, error) from error
        except ValueError:
            part.unlink(missing_ok=True)
            troubles.append(f"{url}: wrong checksum, not {file.checksum}")
    kept = (
        f" {part.stat().st_size:,} bytes are kept and the next attempt goes on from there."
        if part.exists()
        else ""
    )
    advice = "Try again later, or fetch it by hand and use `repfl data import`"
    raise DataError(f"could not download {file.name} ({'; '.join(troubles)}).{kept} {advice}")


def _reason(error: Exception) -> str:
    """A short cause of a failed request, without the layers of the network stack."""
    reply = getattr(error, "response", None)
    if reply is not None:
        return f"the server answered {reply.status_code} {reply.reason}"
    if type(error).__name__ == "ChunkedEncodingError" or "connection ended" in str(error):
        return "the connection ended early"
    return f"no connection ({type(error).__name__})"
