"""Downloads against a small server that can misbehave."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from repfl.datasets.core import registry
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.registry import File
from tests.datasets.tiny import Cifar, cifar_batches, debris, halves, medical, two_editions, zipped

CONTENT = bytes(range(256)) * 4096


@dataclass
class Server:
    """The files, how the server misbehaves, and the paths that were requested."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut: int | None = None  # bytes after which the connection ends
    requests: list[str] = field(default_factory=list)
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            content = state.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: state.cut])

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = httpd.server_address[1]
    thread = Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def official(*urls: str, content: bytes = CONTENT, name: str = "file.bin") -> File:
    return File(name, urls, f"md5:{hashlib.md5(content).hexdigest()}")


@pytest.mark.parametrize(
    ("content", "cut", "words"),
    [(CONTENT, 300_000, "the connection ended early"), (CONTENT[:-1] + b"?", None, "checksum")],
)
def test_a_bad_download_leaves_nothing_and_the_next_attempt_succeeds(
    server: Server, tmp_path: Path, content: bytes, cut: int | None, words: str
) -> None:
    server.files["a"], server.cut = content, cut
    with pytest.raises(DataError, match=words) as caught:
        prepare.fetch(official(server.url("a")), tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    server.files["a"], server.cut = CONTENT, None
    assert prepare.fetch(official(server.url("a")), tmp_path).read_bytes() == CONTENT


def test_the_next_mirror_is_tried(server: Server, tmp_path: Path) -> None:
    server.files |= {"bad": b"another file", "good": CONTENT}
    file = official(server.url("gone"), server.url("bad"), server.url("good"))
    assert prepare.fetch(file, tmp_path).read_bytes() == CONTENT
    assert server.requests == ["/gone", "/bad", "/good"]


def test_a_missing_file_names_address_and_answer(server: Server, tmp_path: Path) -> None:
    said = r"could not download file.bin \(http://.*/gone: the server answered 404 Not Found\)"
    with pytest.raises(DataError, match=said):
        prepare.fetch(official(server.url("gone")), tmp_path)


# -- the whole way ---------------------------------------------------------------------------------


def test_get_downloads_unpacks_prepares_and_does_nothing_the_second_time(
    cifar: Cifar, monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path, root: Path
) -> None:
    dataset, _ = cifar
    folder = cifar_batches(monkeypatch, tmp_path / "batches", **halves(dataset, 3, 2))
    content = zipped(tmp_path / "official.zip", folder).read_bytes()
    server.files["official.zip"] = content
    file = official(server.url("official.zip"), content=content, name="official.zip")
    monkeypatch.setitem(registry._REGISTRY, "cifar10", replace(dataset, files=lambda: (file,)))

    server.cut = 1000
    with pytest.raises(DataError, match="could not download"):
        prepare.download("cifar10", root)
    assert not prepare.is_prepared("cifar10", root)
    server.cut = None
    prepare.download("cifar10", root)
    assert len(open_dataset("cifar10", root).labels) == 50
    requests = len(server.requests)
    prepare.download("cifar10", root)
    assert len(server.requests) == requests
    assert debris(root) == ["raw/cifar10/official.zip"]

    path = prepare.download("cifar10", root)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    prepare.download("cifar10", root)
    assert prepare.is_prepared("cifar10", root)
    assert len(server.requests) == requests  # the archive was still there


def test_another_edition_replaces_the_first(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path, root: Path
) -> None:
    dataset, files = two_editions(monkeypatch, "organcmnist"), {}
    old, new = dataset.editions
    for edition, per_class in ((old, 3), (new, 2)):
        content = medical(tmp_path / "x.npz", dataset, per_class).read_bytes()
        server.files[edition.name] = content
        url = server.url(edition.name)
        files[edition.name] = (official(url, content=content, name="organcmnist.npz"),)
    editions = (old, replace(new, files=lambda: files[new.name]))
    tiny = replace(dataset, files=lambda: files[old.name], editions=editions)
    monkeypatch.setitem(registry._REGISTRY, "organcmnist", tiny)
    prepare.download("organcmnist", root)
    assert open_dataset("organcmnist", root).edition == "medmnist-2"
    prepare.download("organcmnist", root, edition="medmnist-3")
    assert open_dataset("organcmnist", root).edition == "medmnist-3"
