"""Downloads against a small server that can misbehave."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from repfl.datasets.core import download, prepare, registry
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import File
from repfl.datasets.core.store import open_dataset
from tests.datasets.test_store import debris
from tests.datasets.tiny import tiny_cifar, zipped

CONTENT = bytes(range(256)) * 4096


@dataclass
class Server:
    """What is served, how it misbehaves, and what was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut: int | None = None  # bytes after which the connection ends
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            content = state.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            start = (
                int(wanted.removeprefix("bytes=").removesuffix("-"))
                if wanted and state.ranges
                else 0
            )
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if wanted and state.ranges else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: state.cut])

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = httpd.server_address[1]
    thread = Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield state
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def official(*urls: str, content: bytes = CONTENT) -> File:
    return File("file.bin", urls, f"md5:{hashlib.md5(content).hexdigest()}")


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT
    for _ in range(2):
        assert download.fetch(official(server.url("a")), tmp_path).read_bytes() == CONTENT
    assert server.asked == [("/a", None)]
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_progress_is_told(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT
    told: list[tuple[str, int, int]] = []
    download.fetch(official(server.url("a")), tmp_path, lambda *what: told.append(what))
    assert told[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_cut_off_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.files["a"], server.cut = CONTENT, 300_000
    with pytest.raises(
        DataError, match=r"ended early.* bytes are kept and the next attempt goes on from there"
    ) as caught:
        download.fetch(official(server.url("a")), tmp_path)
    assert "\n" not in str(caught.value)
    kept = (tmp_path / "file.bin.part").stat().st_size
    assert 0 < kept <= 300_000
    server.cut = None
    assert download.fetch(official(server.url("a")), tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("/a", f"bytes={kept}-")
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_a_server_that_cannot_resume_is_asked_for_everything(
    server: Server, tmp_path: Path
) -> None:
    server.files["a"], server.ranges = CONTENT, False
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    assert download.fetch(official(server.url("a")), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more"])
def test_a_part_that_is_too_long_is_thrown_away(
    server: Server, tmp_path: Path, part: bytes
) -> None:
    server.files["a"] = CONTENT
    (tmp_path / "file.bin.part").write_bytes(part)
    assert download.fetch(official(server.url("a")), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_and_the_next_attempt_succeeds(
    server: Server, tmp_path: Path
) -> None:
    server.files["a"] = CONTENT[:-1] + b"?"
    with pytest.raises(DataError, match="wrong checksum") as caught:
        download.fetch(official(server.url("a")), tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    server.files["a"] = CONTENT
    assert download.fetch(official(server.url("a")), tmp_path).read_bytes() == CONTENT


def test_the_next_mirror_is_tried(server: Server, tmp_path: Path) -> None:
    server.files |= {"bad": b"another file", "good": CONTENT}
    file = official(server.url("gone"), server.url("bad"), server.url("good"))
    assert download.fetch(file, tmp_path).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/gone", "/bad", "/good"]


def test_a_missing_file_names_address_and_answer(server: Server, tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"could not download file.bin \(http://.*/gone: the server answered 404 Not Found\)",
    ):
        download.fetch(official(server.url("gone")), tmp_path)


def test_no_network_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(
        DataError, match=r"no connection .*or fetch it by hand and use `repfl data import`"
    ) as caught:
        download.fetch(official(f"http://127.0.0.1:{port}/a"), tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_not_taken_for_a_network_fault(
    server: Server, tmp_path: Path
) -> None:
    server.files["a"] = CONTENT
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(DataError, match="cannot write under"):
        download.fetch(official(server.url("a")), tmp_path / "folder")


# -- the whole way ---------------------------------------------------------------------------------


def test_get_downloads_unpacks_prepares_and_does_nothing_the_second_time(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    from tests.datasets.tiny import balanced, cifar_batches

    dataset, _ = tiny_cifar(monkeypatch, tmp_path)
    archive = zipped(
        tmp_path / "official.zip",
        cifar_batches(tmp_path / "batches", balanced(dataset, 3), balanced(dataset, 2, 1)),
    )
    server.files["official.zip"] = archive.read_bytes()
    checksum = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    files = (File("official.zip", (server.url("official.zip"),), checksum),)
    monkeypatch.setitem(registry._REGISTRY, "cifar10", replace(dataset, files=lambda: files))
    root = tmp_path / "root"

    server.cut = 1000
    with pytest.raises(DataError, match="could not download"):
        prepare.obtain("cifar10", root)
    assert not prepare.usable("cifar10", root)
    server.cut = None
    prepare.obtain("cifar10", root)
    assert len(open_dataset("cifar10", root).labels) == 50
    asked = len(server.asked)
    prepare.obtain("cifar10", root)
    assert len(server.asked) == asked
    assert debris(root) == ["raw/cifar10/official.zip"]

    path = prepare.obtain("cifar10", root)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    prepare.obtain("cifar10", root)
    assert prepare.usable("cifar10", root)
    assert len(server.asked) == asked  # the archive was still there


def test_another_edition_replaces_the_first(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    from tests.datasets.tiny import balanced, npz

    dataset = registry.get("organcmnist")
    old, new = (
        replace(e, sizes={"train": n, "val": 11, "test": 11})
        for e, n in zip(dataset.editions, (33, 22), strict=True)
    )
    sources = {}
    for edition, per_class in ((old, 3), (new, 2)):
        content = npz(
            tmp_path / "x.npz",
            train=balanced(dataset, per_class),
            val=balanced(dataset, 1, 1),
            test=balanced(dataset, 1, 2),
        ).read_bytes()
        server.files[edition.name] = content
        sources[edition.name] = (
            File(
                "organcmnist.npz",
                (server.url(edition.name),),
                f"md5:{hashlib.md5(content).hexdigest()}",
            ),
        )
    tiny = replace(
        dataset,
        files=lambda: sources["medmnist-2"],
        editions=(old, replace(new, files=lambda: sources["medmnist-3"])),
    )
    monkeypatch.setitem(registry._REGISTRY, "organcmnist", tiny)
    prepare.obtain("organcmnist", tmp_path / "root")
    assert open_dataset("organcmnist", tmp_path / "root").edition == "medmnist-2"
    prepare.obtain("organcmnist", tmp_path / "root", edition="medmnist-3")
    assert open_dataset("organcmnist", tmp_path / "root").edition == "medmnist-3"


def test_what_a_licence_keeps_from_being_fetched_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"office_home cannot be fetched.*hemanthdv.org.*repfl data import office_home --from",
    ):
        prepare.obtain("office_home", tmp_path)
    assert list(tmp_path.iterdir()) == []
